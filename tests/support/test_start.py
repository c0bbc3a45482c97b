"""Processes that tests start do without what Keras needs for little, and find everything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.start import python_path


def test_keras_does_without_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "found.py").write_text("")
    code = ("import sys, found, scipy\n"
            "import tensorflow as tf\n"
            "print(tf.keras.layers.Dense(2)(tf.ones([1, 3])).shape,\n"
            "      {'sklearn', 'scipy.stats', 'matplotlib'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": python_path(tmp_path)})
    assert done.stdout == "(1, 2) set()\n", done.stderr
