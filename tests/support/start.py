"""How tests start Python."""

from __future__ import annotations

import os
from pathlib import Path

LEFT_OUT = Path(__file__).parent / "left_out"
"""Modules that cannot be imported, in place of those that Keras imports where they are installed: scikit-learn, with it
SciPy's statistics, and Matplotlib are a third of the processor time of TensorFlow's import."""


def python_path(*folders: Path | str) -> str:
    """PYTHONPATH of a process that finds modules in `folders` and does not use those of LEFT_OUT."""
    return os.pathsep.join(map(str, (*folders, LEFT_OUT)))
