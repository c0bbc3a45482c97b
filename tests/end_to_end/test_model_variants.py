"""Models of the zoo in TensorFlow 1's style, with unrolled loops, and in half precision.

They run on a GPU where TensorFlow sees one, by the same command.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from models.zoo import NAMES, load
from tests.end_to_end.conftest import Plain, Runner
from tests.support.tiers import each_commit, of_today
from tests.support.zoo_case import Case, check_model

CASES = [
    *(Case(model, style="tf1") for model in NAMES if "tf1" in load(model).styles),
    *(Case(model, unroll=True) for model in ("dyn-rnn", "nmt")),  # loops of known length, and of one that is a size
    # A region rounds to half precision where it hands on a value, TensorFlow after every op.
    Case("bert", dtype="mixed_float16", losses=5e-3, outputs=3e-2),
    # TensorFlow's own outputs of bert in bfloat16 are 0.04 apart with oneDNN and without it, and 0.25 from float32's.
    Case("bert", dtype="mixed_bfloat16", losses=5e-3, outputs=8e-2),
    Case("transformer", dtype="mixed_bfloat16", losses=5e-3, outputs=8e-2),
    Case("dien", dtype="mixed_float16", losses=2e-3, outputs=1e-2),
]


FIRST = ("logistic-tf1", "nmt-unrolled", "transformer-mixed_bfloat16", "dien-mixed_float16")
"""One of these each day."""


@pytest.mark.of_today
@pytest.mark.parametrize("case", each_commit(of_today([case for case in CASES if str(case) in FIRST], 1), CASES),
                         ids=str)
@pytest.mark.timeout(900)
def test_same_losses_and_outputs(case: Case, forked: Runner, tensorflow: Plain, tmp_path: Path) -> None:
    check_model(case, forked, tensorflow, tmp_path)
