"""The zoo's loops, as they would be on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_fates() -> None:
    """A decoder that ends itself, and a recurrent network with its gradients' loops and those of its loss."""
    done = subprocess.run([sys.executable, "-m", "tools.zoo_loops", "--names=asr,rokid"], cwd=ROOT, text=True,
                          capture_output=True, timeout=200, env=os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"})
    assert done.returncode == 0, done.stderr[-3000:]
    asr, rokid = done.stdout.split("rokid train\n")
    assert asr.startswith("asr infer\n  while: one op, the host waits for its condition; ")
    assert [line.partition(";")[0].split(": ") for line in rokid.splitlines()] == [
        [f"  {name}", "one op, the host decides"] for name in (
            "recurrent_1/while", "recurrent_1_2/while", "ctc_loss_dense/While", "ctc_loss_dense/While_1",
            "gradient_tape/recurrent_1_2/while/recurrent_1_2/while_grad",
            "gradient_tape/recurrent_1/while/recurrent_1/while_grad")]
