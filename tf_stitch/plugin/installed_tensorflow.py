"""Which TensorFlow there is. Any distribution that brings the package `tensorflow` counts: tensorflow, tensorflow-cpu,
tf-nightly, a wheel built from source. pip installs none beside it, for tf_stitch requires none by name."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

from tf_stitch.errors import TensorFlowError

OLDEST = (2, 16)
"""The first version that tf_stitch works with: major, minor."""
TESTED = ((2, 16), (2, 21))
"""First and last version that tools/versions.sh was run with."""
ADVICE = "pip install tensorflow, or tensorflow-cpu or tf-nightly of version 2.16 or later"
_PACKAGE = "tensorflow"


@dataclass(frozen=True)
class InstalledTensorFlow:
    """A TensorFlow that can be imported.

    Attributes:
        distribution: what pip calls it; "" where no distribution brings it (a folder on the path).
        version: as the distribution says, "" if none does.
    """

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}" if self.distribution else "a TensorFlow that pip does not know"


def find_tensorflow() -> InstalledTensorFlow:
    """Looks for TensorFlow without importing it. Takes a third of a second, for pip's records of all distributions are
    read.

    Raises:
        TensorFlowError: there is none, or its version is not supported; the message says what to install.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        raise TensorFlowError(f"TensorFlow is not installed: {ADVICE}")
    from importlib import metadata  # not above: each Python process of an environment with TF_STITCH=1 loads this file

    for distribution in metadata.packages_distributions().get(_PACKAGE, []):
        found = InstalledTensorFlow(distribution, metadata.version(distribution))
        if _release(found.version) >= (2,):  # another distribution may put a plug-in into the folder `tensorflow`
            check_version(found.version)
            return found
    return InstalledTensorFlow("", "")


def check_version(version: str) -> None:
    """Raises TensorFlowError unless tf_stitch works with a TensorFlow of this version."""
    release = _release(version)
    if release < OLDEST:
        raise TensorFlowError(f"TensorFlow {version} is too old, tf_stitch needs {OLDEST[0]}.{OLDEST[1]} or later: "
                              f"{ADVICE}")


def _release(version: str) -> tuple[int, ...]:
    """Major and minor version, also of "2.21.0-rc1" and "2.22.0.dev20260801"."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
