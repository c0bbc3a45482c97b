"""Into how many parts TensorFlow cuts a function whose arguments are in the host's memory."""

from __future__ import annotations

import json

import numpy as np

from tests.end_to_end.conftest import PROGRAMS, Runner


def test_no_part_only_sends_an_argument(forked: Runner) -> None:
    plain = json.loads(forked(PROGRAMS / "argument_parts.py", stitch="").stdout)
    done = forked(PROGRAMS / "argument_parts.py", stitch="strict", TF_STITCH_ASYNC="0")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    [of_region] = [part for part in found["parts"] if "StitchOp" in part]
    assert "_Arg" in of_region
    assert not any("_Arg" in part for part in found["parts"] if part is not of_region)
    assert sum("_Arg" in part and "_Send" in part for part in plain["parts"]) == 1, "TensorFlow has no such part"
    np.testing.assert_allclose(found["result"], plain["result"], rtol=1e-6)
