"""Phases of a kernel over rows."""

from __future__ import annotations

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.schedule.phases import split_phases

B, F32, K = p.B, DType.F32, OpKind


def test_phases_of_softmax() -> None:
    phases = split_phases(whole(p.softmax(x(8, 100))), 800)
    assert [[n.kind for n in ph.reductions] for ph in phases] == [[K.MAX], [K.SUM], []]
    assert [len(ph.outputs) for ph in phases] == [0, 0, 1]
