"""What running a model has led to, stored on disk: who converts it again need not run and time it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from tf_stitch.convert.paths import GRAPH_FILE
from tf_stitch.convert.saved_model import Model
from tf_stitch.errors import BuildError
from tf_stitch.jit.libraries import SCOPES
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.device_profiles import machine_key
from tf_stitch.runtime.kernel_cache import KernelCache

T = TypeVar("T")
_SUFFIX = ".json"
_FILES = (GRAPH_FILE, "variables/variables.index")
"""Of a model: they tell it from others. The index has checksums of the variables."""


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


def identity_of(model: Model) -> str:
    """Digest of a model's graph and weights."""
    files = [model.path / name for name in _FILES]
    return "".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists())


class _Stored:
    """One document on this machine.

    Args:
        of: what it tells of: a model, or what has a model's structure.
        circumstances: what else it depends on.
    """

    kind: str

    def __init__(self, cache_dir: Path, of: str, circumstances: Sequence[str]) -> None:
        self._cache = KernelCache(cache_dir / "conversions")
        self._key = cache_key(of, self.kind, machine_key("cpu", 0), circumstances, tf.__version__,
                              package_digest())

    def _read(self) -> Any:
        """
        Raises:
            OSError, ValueError: it cannot be read.
        """
        path = self._cache.get(self._key, _SUFFIX)
        return None if path is None else json.loads(path.read_bytes().partition(b"\n#sha256")[0])

    def _recalled(self, make: Callable[[Any], T]) -> T | None:
        """What `make` makes of the document; None if there is none, or it makes no sense: that is discarded."""
        try:
            found = self._read()
            return None if found is None else make(found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._cache.discard(self._key, _SUFFIX)
            return None

    def _write(self, data: object) -> None:
        """A full disk is no error: it is found again."""
        with suppress(BuildError):
            self._cache.put(self._key, _SUFFIX, json.dumps(data).encode())


class StoredVerdicts(_Stored):
    """Which regions are given up, of models of one structure: timing two that differ in weights would let chance decide
    between them."""

    kind = "conversion"

    def recall(self) -> Verdicts | None:
        """None if there are none, or they make no sense."""
        return self._recalled(lambda found: Verdicts([int(n) for n in found["given_up"]],
                                                     {str(s): float(t) for s, t in found["times"].items()}))

    def keep(self, verdicts: Verdicts) -> None:
        """For the next conversion."""
        self._write({"given_up": list(verdicts.given_up), "times": dict(verdicts.times)})


class StoredShapes(_Stored):
    """The shapes that regions run with: region -> shapes of its inputs and variables."""

    kind = "shapes of regions"

    def recall(self) -> dict[int, list[Shapes]] | None:
        """None if there are none, or they make no sense."""
        return self._recalled(lambda found: {
            int(region): [tuple(tuple(int(d) for d in shape) for shape in one) for one in shapes]
            for region, shapes in found})

    def keep(self, seen: Mapping[int, Sequence[Shapes]]) -> None:
        """For the next conversion."""
        self._write(list(seen.items()))


class StoredScope(_Stored):
    """What regions hold, of models of one structure: of the scopes that were tried the faster one."""

    kind = "scope"

    def recall(self) -> str | None:
        """None if there is none, or it makes no sense."""
        return self._recalled(_known_scope)

    def keep(self, scope: str) -> None:
        """For the next conversion."""
        self._write(scope)


def _known_scope(found: Any) -> str:
    if found not in SCOPES:
        raise ValueError(f"{found!r} is no scope")
    return str(found)
