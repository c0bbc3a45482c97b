"""Kernels by template compute what the rules' kernel does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.differential import patterns as p
from tests.differential.runner import add_written, random_values, reference, region
from tests.support.whole_patterns import x
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.template_kernels import possible_kernels, templated
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.occupancy import fits_registers
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.schedule.kernel_schedule import Origin
from tf_stitch.templates import parse_template

B = p.B
SLOW = 300
"""Threads of a block from which the interpreter takes too long."""


def kernel(graph: TensorGraph, device: DeviceSpec) -> LoweredKernel:
    """All of a graph as one kernel by the rules."""
    nodes = graph.nodes()
    free = free_nodes(nodes)
    pattern = make_pattern(plannable(graph, free), users_of(nodes), frozenset(live_out(graph)), free)
    return compile_pattern(pattern, device)


def run(one: LoweredKernel, graph: TensorGraph, values: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Outputs by the kernel interpreter."""
    verify_program(one.program)
    memory: dict[Node, NDArray[Any]] = {}
    buffers = {}
    for (node, mode), buffer in zip(one.arguments, one.program.parameters, strict=True):
        if mode is Mode.READ:
            memory[node] = values[key_of(node)].reshape(-1).copy()
        else:
            memory[node] = np.full(buffer.size, 7, buffer.dtype.numpy)
        buffers[buffer.name] = memory[node]
    interpret_program(one.program, buffers)
    return {key: memory[node].reshape(node.type.dims) for key, node in graph.outputs}


def check(one: LoweredKernel, graph: TensorGraph) -> None:
    values = add_written(graph, random_values(graph))
    want, allowed = reference(graph, values)
    got = run(one, graph, values)
    for key in want:
        error = np.abs(got[key].astype(np.float64) - want[key])
        assert (error <= allowed[key]).all(), f"{key} by {template_of(one.schedule)}"


GRAPHS = {
    "softmax": [p.softmax(x(5, 48))], "norm": [p.layernorm(x(6, 40), x(40), x(40))], "odd rows": [p.softmax(x(7, 33))],
    "row sums": [B.sum(B.exp(x(37, 8)), [1])], "column sums": [B.sum(B.exp(x(19, 24)), [0])],
    "middle sums": [B.sum(x(3, 10, 12), [1])], "elements": [B.exp(x(9, 52)), B.neg(x(9, 52))],
    "transpose": [B.exp(B.transpose(x(40, 36), [1, 0]))], "batched transpose": [B.transpose(x(2, 33, 40), [0, 2, 1])],
    "scan": [B.cumsum(x(70, 5), False, False)], "arg max": [B.arg_reduce(OpKind.ARGMAX, x(5, 70), 1, DType.I32)]}


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_candidate_is_right(name: str, device: DeviceSpec) -> None:
    graph = region(name, GRAPHS[name])
    default = kernel(graph, device)
    found = list(possible_kernels(default, device, True))
    assert found[0] is default
    assert len({template_of(one.schedule) for one in found}) == len({one.program for one in found}) == len(found)
    quick = [one for one in found if one.program.threads < SLOW]
    for one in quick[::max(1, len(quick) // 24)]:
        check(one, graph)
    if device is H200:
        assert len(found) >= 4
        assert all(one.schedule.origin is Origin.TUNED and fits_registers(one.program, H200) for one in found[1:])


@pytest.mark.parametrize("template", [
    "*[GRID,THREAD_2-GRID_2-CTA_32-THREAD_4];", "*[GRID,THREAD-GRID_2-CTA_64-THREAD_4]S;",
    "*[GRID,THREAD-GRID_4-CTA_64];",
    "*[GRID,THREAD-CTA_64-THREAD_2]S;", "*[GRID-CTA_2,THREAD-CTA_64];", "*[GRID-CTA_32,THREAD-CTA_1];",
    "*[GRID-THREAD_2-CTA_2,THREAD-CTA_32-THREAD_4];", "*[GRID-WARP,CTA];"])
@pytest.mark.parametrize("columns", [400, 500])
def test_templates_of_every_kind(template: str, columns: int) -> None:
    graph = region("softmax", [p.softmax(x(3, columns))])
    one = templated(parse_template(template), kernel(graph, H200), H200, True)
    assert one.schedule.origin is Origin.FORCED
    check(one, graph)


def test_what_does_not_fit_registers_is_not_tried() -> None:
    """Algorithm 3: register planning leaves templates out."""
    graph = region("softmax", [p.softmax(x(64, 32_768))])
    default = kernel(graph, H200)
    spilling = templated(parse_template("*[GRID,THREAD_64-CTA_128-THREAD_4];"), default, H200, True)
    assert not fits_registers(spilling.program, H200)
    assert spilling.program not in {one.program for one in possible_kernels(default, H200, True)}
