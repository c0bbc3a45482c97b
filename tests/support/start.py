"""How tests start Python."""

from __future__ import annotations

import os
from pathlib import Path

_WITHOUT_SKLEARN = Path(__file__).parent / "without_sklearn"


def python_path(*folders: Path | str) -> str:
    """PYTHONPATH of a process that finds modules in `folders` and does not use scikit-learn. Keras imports that where
    it is installed, and with it SciPy's statistics: a quarter of the processor time of TensorFlow's import."""
    return os.pathsep.join(map(str, (*folders, _WITHOUT_SKLEARN)))
