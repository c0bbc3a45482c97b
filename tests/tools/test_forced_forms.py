"""Regions that run their fallback subgraphs give what TensorFlow gives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT
from tools.forced_forms import FORMS

PROGRAM = """
import json, sys
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)
L = tf.keras.layers
model = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), L.DepthwiseConv2D(3), L.ReLU(), L.GlobalAveragePooling2D(),
                             L.Dense(4)])
model.compile("sgd", "mse", jit_compile=False)
images = np.random.default_rng(0).standard_normal((16, 8, 8, 3)).astype("f")
print(json.dumps([model.train_on_batch(images, np.ones((16, 4), "f")) for _ in range(6)]))
"""


def losses(folder: Path, *runner: str) -> tuple[list[float], str]:
    """Of a few steps with oneDNN's ops, whose depthwise convolutions with activations no other kernel computes."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"TF_STITCH": "0", "TF_ENABLE_ONEDNN_OPTS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, *runner, str(program)], capture_output=True, text=True, timeout=280,
                          cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(tmp_path_factory.mktemp("plain"))[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_depthwise_convolution_falls_back(plain: list[float], tmp_path: Path, form: str) -> None:
    got, said = losses(tmp_path, "-m", "tools.forced_forms", form)
    assert got == pytest.approx(plain, rel=1e-5)
    found = re.search(r"forms: (\d+) by kernels, (\d+) by fallbacks", said)
    assert found is not None, said[-3000:]
    kernels, fallbacks = map(int, found.groups())
    assert fallbacks > 0
    assert kernels == (fallbacks if form == "in_turns" else 0)
