"""Which values of one GPU come to another by a copy of ours."""

from __future__ import annotations

from tests.graph.graphs import placed, text_of
from tf_stitch.graph.finish.copy_between_gpus import copy_between_gpus

F32, F16 = 1, 19


def test_a_mean_over_two_gpus() -> None:
    graph = placed("""
        a = StitchStateOp()
        b = StitchStateOp()
        mean = StitchOp(a, b:1, ^b)
        again = StitchOp(b:1)
    """, "00 01 00 00", {"mean": [F32, F16], "again": [F16]})
    copy_between_gpus(graph)
    assert text_of(graph).splitlines()[2:] == [
        "mean = StitchOp(a, mean/receive_0, ^b)", "again = StitchOp(mean/receive_0)",
        "b/send_0 = StitchPeerSend(b:1)", "mean/receive_0 = StitchPeerReceive(b/send_0)"]
    [sent, received] = graph.node[4:]
    assert (sent.device, received.device) == (graph.node[1].device, graph.node[2].device)
    assert sent.attr["T"].type == received.attr["T"].type == F16


def test_what_stays_tensorflows() -> None:
    """Copies to other processes, from the host, of what no region computes, and to what is no region."""
    graph = placed("""
        elsewhere = StitchOp()
        host = StitchOp()
        given = Identity()
        r = StitchOp(elsewhere, host, given)
        near = StitchOp(r)
        read = Mean(r)
    """, "11 0c 01 00 00 01", {"r": [F32, F32, F32], "near": [F32]})
    before = graph.SerializeToString(deterministic=True)
    copy_between_gpus(graph)
    assert graph.SerializeToString(deterministic=True) == before


def test_loops_and_handles_stay() -> None:
    graph = placed("""
        a = StitchOp()
        loop = StitchWhile(a)
        r = StitchStateOp(loop, a)
    """, "00 01 00", {"r": [F32]})
    before = text_of(graph)
    copy_between_gpus(graph)
    assert text_of(graph) == before
