"""What explain says of a Keras encoder's train step."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.end_to_end.conftest import SCRIPTS, Runner
from tf_stitch.cli.explain.rows import SHARED, Graph, graphs
from tf_stitch.cli.explain.why import answers


@pytest.fixture(scope="module")
def train_step(forked: Runner) -> Graph:
    done = forked(SCRIPTS / "digits_encoder.py", "--steps", 2, "--batch", 32)
    assert done.report is not None, done.stderr[-3000:]
    return max(graphs(done.report), key=lambda graph: len(graph.ops))


def test_every_op_has_a_kernel_or_a_reason(train_step: Graph) -> None:
    assert len(train_step.ops) > 1000
    for op in train_step.ops:
        assert bool(op.kernels) != bool(op.why), op
        assert op.kernels or len(str(op.why)) > 12, op
        assert "unknown" not in str(op.why), op
    shared = [op for op in train_step.ops if op.why == SHARED]
    assert len(shared) < 10, "nearly every op whose value is another's says whose"
    kinds = Counter(op.op for op in train_step.ops if op.kernels)
    assert kinds["Softmax"] == kinds["Rsqrt"] / 2 > 0  # in attention, and in two normalisations a block
    whys = {op.op: op.why or op.kernels[0].rule for op in train_step.ops}
    assert "library" in whys["BatchMatMulV2"]  # TensorFlow's, or a region's
    assert "random" in whys["StatelessRandomUniformV2"]


def test_updates_name_the_kernel_that_writes(train_step: Graph) -> None:
    updates = [op for op in train_step.ops if op.op.startswith("Assign") and op.region is not None]
    assert len(updates) > 50
    assert all(op.kernels or "writes its variable" in str(op.why) for op in updates)


def test_why_answers_for_every_op(train_step: Graph) -> None:
    paragraphs = "\n".join(answers(train_step, "*")).strip().split("\n\n")
    assert len(paragraphs) == len(train_step.ops)
    for op, text in zip(train_step.ops, paragraphs, strict=True):
        lines = text.splitlines()
        assert lines[0].startswith(f"{op.name} ({op.op})")
        assert any(line.startswith(("  kernel ", "  TensorFlow runs it: ")) or "in no kernel: " in line
                   for line in lines[1:]), text
