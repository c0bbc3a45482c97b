"""What timing a model's regions has led to, kept on disk: who converts it again does not time it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from tf_stitch.convert.saved_model import GRAPH_FILE, Model
from tf_stitch.errors import BuildError
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.device_profiles import machine_key
from tf_stitch.runtime.kernel_cache import KernelCache

_SUFFIX = ".json"


@dataclass(frozen=True)
class Verdicts:
    """
    Attributes:
        given_up: numbers of regions.
        times: signature -> time of a call relative to the original's, before regions of slower signatures were given
            up.
    """

    given_up: Sequence[int]
    times: Mapping[str, float]


class KeptVerdicts:
    """Of one model on this machine.

    Args:
        circumstances: what else they depend on.
    """

    def __init__(self, cache_dir: Path, model: Model, circumstances: Sequence[str]) -> None:
        self._cache = KernelCache(cache_dir / "conversions")
        graph = hashlib.sha256((model.path / GRAPH_FILE).read_bytes()).hexdigest()
        self._key = cache_key(graph, "conversion", machine_key("cpu", 0), circumstances, tf.__version__,
                              package_digest())

    def recall(self) -> Verdicts | None:
        """None if there are none, or they make no sense."""
        path = self._cache.get(self._key, _SUFFIX)
        if path is None:
            return None
        try:
            found = json.loads(path.read_bytes().partition(b"\n#sha256")[0])
            return Verdicts([int(n) for n in found["given_up"]], {str(s): float(t) for s, t in found["times"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._cache.discard(self._key, _SUFFIX)
            return None

    def keep(self, verdicts: Verdicts) -> None:
        """A full disk is no error: they are found anew."""
        with suppress(BuildError):
            data = {"given_up": list(verdicts.given_up), "times": dict(verdicts.times)}
            self._cache.put(self._key, _SUFFIX, json.dumps(data).encode())
