"""Runs one graph on every level: tensor IR in NumPy, kernel IR in Python, compiled CPU code; and compiles CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.shared_cache import shared_cache
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.plan_verifier import verify_plan
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.families.attention import ATTENTION
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.arguments import arguments_of as keys_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of, make_node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import TensorType
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.kernel_ir.dependencies import read_before
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.pass_manager import Instrument
from tf_stitch.placement.executable import BufferRef, Copy, DeviceLaunch, HostLaunch, LibraryStep
from tf_stitch.placement.executable_format import Space, StateMode
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.host_builder import OPTIONS, build_host
from tf_stitch.runtime.host_run import HostExecutable, aligned_copy, aligned_empty
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import OPTIONS as CUDA_OPTIONS
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.schedule.reuse import Reuse

Array = NDArray[Any]
Values = dict[str, Array]

RELATIVE = {DType.F16: 1e-2, DType.BF16: 6e-2, DType.F32: 3e-5, DType.F64: 1e-11}
"""Error allowed per element, relative to itself and, an eighth of it, to the largest element of its tensor (or 1)."""


LIGHT = tuple("-O1" if option == "-O3" else option for option in OPTIONS)
"""For the C compiler, of many kernels whose values are the subject: it takes half the time, and loops that are marked
for vectors become vectors all the same. Tests of single patterns and of emission build as users do."""


QUICK = (*CUDA_OPTIONS, "--Ofast-compile=max")
"""For NVRTC, of sources that it is to accept: it optimizes little, which is half of its time with large kernels."""


@dataclass
class Counts:
    """What a run has built; a campaign prints it."""

    host: int = 0
    cubins: int = 0
    kernels: int = 0
    interpreted: int = 0
    rules: dict[str, int] = field(default_factory=dict)


COUNTS = Counts()


def cache() -> KernelCache:
    """One folder for all test processes."""
    return shared_cache()


def region(name: str, outputs: list[Node], assigns: Mapping[str, Node] | None = None) -> TensorGraph:
    """A graph with outputs o0, o1, ... and assigns by handle."""
    pairs = [(f"o{i}", node) for i, node in enumerate(outputs)]
    pairs += [(h, make_node(OpKind.ASSIGN, (v,), oa.AssignAttrs(h))) for h, v in (assigns or {}).items()]
    return TensorGraph(name, pairs)


def random_values(graph: TensorGraph, seed: int = 0) -> Values:
    """Values for every input and variable: normal floats, small integers, coins."""
    rng = np.random.default_rng(seed)
    values: Values = {}
    for node in graph.inputs():
        t = node.type
        if t.dtype is DType.BOOL:
            values[key_of(node)] = rng.integers(0, 2, t.dims).astype(np.bool_)
        elif t.dtype.is_integer:
            values[key_of(node)] = rng.integers(0, 4, t.dims).astype(t.dtype.numpy)
        else:
            values[key_of(node)] = np.asarray(rng.standard_normal(t.dims)).astype(t.dtype.numpy)
    return values


def add_written(graph: TensorGraph, values: Values) -> Values:
    """`values` with zeros for variables that are assigned but not read."""
    full = dict(values)
    for _, node in graph.outputs:
        if isinstance(node.attrs, oa.AssignAttrs):
            full.setdefault(node.attrs.handle, np.zeros(node.type.dims, node.type.dtype.numpy))
    return full


# Reference.
def widen(graph: TensorGraph) -> TensorGraph:
    """The graph with every float type turned into float64."""
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        attrs = node.attrs
        if isinstance(attrs, oa.InputAttrs | oa.VariableAttrs):
            attrs = replace(attrs, type=TensorType(_wide(attrs.type.dtype), attrs.type.shape))
        elif isinstance(attrs, oa.ConstantAttrs):
            attrs = oa.ConstantAttrs(attrs.value.astype(_wide(DType.of(attrs.value.dtype)).numpy))
        elif isinstance(attrs, oa.CastAttrs | oa.ExtentAttrs | oa.IotaAttrs):
            attrs = replace(attrs, dtype=_wide(attrs.dtype))
        new[node] = make_node(node.kind, [new[o] for o in node.operands], attrs, node.loc)
    return TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs])


def _wide(dtype: DType) -> DType:
    return DType.F64 if dtype.is_float else dtype


def reference(graph: TensorGraph, values: Values) -> tuple[Values, Values]:
    """Outputs in float64, and the error that each element may have."""
    stepwise = interpret(graph, values)
    wide = {k: v.astype(np.float64) if DType.of(v.dtype).is_float else v for k, v in values.items()}
    exact = interpret(widen(graph), wide)
    allowed: Values = {}
    for key, node in graph.outputs:
        want = exact[key].astype(np.float64)
        if not node.type.dtype.is_float:
            allowed[key] = np.zeros(want.shape)
            continue
        with np.errstate(all="ignore"):
            off = np.abs(stepwise[key].astype(np.float64) - want)
            finite = np.isfinite(want)
            noise = np.max(off[np.isfinite(off)], initial=0.0)
            largest = np.max(np.abs(want[finite]), initial=0.0)
            relative = RELATIVE[node.type.dtype]
            tolerance = relative * np.abs(want) + relative / 8 * max(largest, 1.0) + 8 * noise
            # Where the type itself overflows or the steps do not agree on NaN there is no single answer.
            settled = np.isfinite(stepwise[key].astype(np.float64)) == finite
            allowed[key] = np.where(settled, tolerance, np.inf)
    return exact, allowed


def compare(graph: TensorGraph, got: Values, want: Values, allowed: Values, what: str) -> None:
    """Asserts that outputs agree.

    Raises:
        AssertionError: names the output, the level and the first element that differs.
    """
    for key, node in graph.outputs:
        assert got[key].shape == node.type.dims, f"{what}: {key} has shape {got[key].shape}"
        a, b, tolerance = got[key].astype(np.float64), want[key].astype(np.float64), allowed[key]
        with np.errstate(all="ignore"):
            good = (np.abs(a - b) <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b)) | np.isinf(tolerance)
        if not good.all():
            at = tuple(int(i) for i in np.argwhere(~good)[0]) if good.ndim else ()
            raise AssertionError(f"{what}: {key} {node.type}: {int((~good).sum())} of {good.size} elements differ, "
                                 f"first at {at}: {a[at]} where {b[at]} is right (allowed {tolerance[at]})")


# Levels.
def compiled(graph: TensorGraph, device: DeviceSpec, aligned: bool = True, solver: str = "ilp",
             barriers: bool = True, reuse: Reuse = Reuse.MERGED, careful: int = PlanOptions.careful,
             memory: MemoryBudget | None = None) -> CompiledRegion:
    """The region compiled down to source, every stage verified."""
    inputs, variables = keys_of(graph)
    options = CompileOptions(device, PlanOptions(solver, barriers=barriers, careful=careful), aligned, reuse=reuse,
                             memory=memory)
    result = compile_region(graph, inputs, variables, options,
                            Instrument(after=[lambda name, g: verify_graph(g, static=True)]),
                            Instrument(after=[lambda name, kernels: verify_plan(kernels)]))
    for kernel in result.kernels:
        verify_program(kernel.program)
        rule = f"{device.target} {kernel.schedule.family}"
        COUNTS.rules[rule] = COUNTS.rules.get(rule, 0) + 1
    COUNTS.kernels += len(result.kernels)
    check_early_reads(result)
    return result


def check_early_reads(region: CompiledRegion) -> None:
    """What launches read before those that they depend on have ended is there when a region begins, and stays."""
    written = {region.buffers.argument(node, mode) for call in region.calls for node, mode in call.arguments
               if mode is not Mode.READ}  # fmt: skip
    early: set[BufferRef] = set()
    for step in region.executable.steps:
        if isinstance(step, Copy):
            written.add(step.target)
        elif not isinstance(step, LibraryStep):
            args = list(step.args)
            for program in region.programs[step.symbol]:
                verify_program(program)
                names = read_before(program)
                for b in program.parameters:
                    ref = args.pop(0)
                    written |= {ref} if b.mode is not Mode.READ else set()
                    early |= {ref} if b.name in names else set()
    assert not early & written
    assert {ref.space for ref in early} <= {Space.INPUT, Space.VARIABLE}


def run_kernel_ir(graph: TensorGraph, region: CompiledRegion, values: Values, backwards: bool = False) -> Values:
    """Runs the executable's steps with the kernel interpreter on memory laid out as planned.

    Args:
        backwards: run the members of a packed launch in reverse order: they claim to be independent.
    """
    e = region.executable
    values = add_written(graph, values)
    ins, current = [aligned_copy(values[k]) for k in e.inputs], [aligned_copy(values[k]) for k in e.variables]
    outs = [_garbage(t.dims, t.dtype) for t in e.outputs]
    fresh = [_garbage(current[v].shape, DType.of(current[v].dtype)) for v, _ in e.state]
    arena = aligned_empty((e.arena_bytes,), np.dtype(np.uint8))
    arena[...] = 0xAB
    for output, given in e.updated:
        outs[output][...] = ins[given]
    spaces = {Space.INPUT: ins, Space.OUTPUT: outs, Space.VARIABLE: current, Space.FRESH: fresh}

    def memory(ref: BufferRef, nbytes: int, whole: bool = True) -> Array:
        if ref.space is Space.ARENA:
            assert ref.index + nbytes <= e.arena_bytes
            return arena[ref.index:ref.index + nbytes]
        found = spaces[ref.space][ref.index].reshape(-1).view(np.uint8)
        assert found.size == nbytes or (found.size > nbytes and not whole)
        return found[:nbytes]

    for step in e.steps:
        if isinstance(step, HostLaunch | DeviceLaunch):
            members, args = [], list(step.args)
            for program in region.programs[step.symbol]:
                refs, args = args[:len(program.parameters)], args[len(program.parameters):]
                if program.cooperative:
                    barrier, args = args[0], args[1:]
                    assert barrier.space is Space.BARRIER
                members.append((program, {b.name: memory(r, b.size * b.dtype.size).view(b.dtype.numpy)
                                          for b, r in zip(program.parameters, refs, strict=True)}))
            assert not args
            for program, buffers in reversed(members) if backwards else members:
                COUNTS.interpreted += 1
                interpret_program(program, buffers)
        elif isinstance(step, LibraryStep):
            step.call.reference([memory(a, size, whole=False) for a, size
                                 in zip(step.args, step.call.operand_bytes(), strict=True)])
        else:
            assert isinstance(step, Copy)
            memory(step.target, step.nbytes)[...] = memory(step.source, step.nbytes)
    state = {e.variables[v]: current[v] if mode is StateMode.IN_PLACE else fresh[i] for i,
             (v, mode) in enumerate(e.state)}
    return results_by_key(graph, outs, state)


def run_host(graph: TensorGraph, region: CompiledRegion, values: Values, options: tuple[str, ...] = OPTIONS) -> Values:
    """Builds the C source and runs it."""
    values = add_written(graph, values)
    COUNTS.host += 1
    library = build_host(region.source, "native", cache(), options)
    outs, state = HostExecutable(region.executable, library).run(values, values)
    return results_by_key(graph, outs, state)


def build_cubin(region: CompiledRegion) -> None:
    """Compiles the CUDA source for an H200."""
    COUNTS.cubins += 1
    assert build_cuda(region.source, "90", cache(), QUICK).stat().st_size > 0


def results_by_key(graph: TensorGraph, outs: list[Array], state: dict[str, Array]) -> Values:
    """Outputs and state under the keys of the graph."""
    numbered = iter(outs)
    return {key: state[key] if node.kind is OpKind.ASSIGN else next(numbered) for key, node in graph.outputs}


def _garbage(shape: tuple[int, ...], dtype: DType) -> Array:
    out = aligned_empty(shape, dtype.numpy)
    out.reshape(-1).view(np.uint8)[...] = 0xAB if dtype is not DType.BOOL else 1
    return out


def check_all(graph: TensorGraph, values: Values | None = None, *, aligned: bool = True, solver: str = "ilp",
              interpret_cpu: bool = False, interpret_gpu: bool = False, cuda: bool = True,
              options: tuple[str, ...] = OPTIONS) -> None:
    """Every level of one graph against the float64 reference.

    Args:
        interpret_cpu, interpret_gpu: run the kernel IR too, and the CUDA source on a CPU; slow, for small graphs.
        cuda: compile the CUDA source.
        options: for the C compiler.
    """
    verify_graph(graph, static=True)
    values = random_values(graph) if values is None else values
    want, allowed = reference(graph, values)
    cpu = compiled(graph, CPU, aligned, solver)
    if cpu.source:
        compare(graph, run_host(graph, cpu, values, options), want, allowed, "compiled CPU code")
    if interpret_cpu or not cpu.source:
        compare(graph, run_kernel_ir(graph, cpu, values), want, allowed, "CPU kernel IR")
    gpu = compiled(graph, H200, aligned, solver)
    if interpret_gpu:
        compare(graph, run_kernel_ir(graph, gpu, values), want, allowed, "H200 kernel IR")
        if any(len(p) > 1 for p in gpu.programs.values()):
            compare(graph, run_kernel_ir(graph, gpu, values, backwards=True), want, allowed,
                    "H200 kernel IR, packs backwards")
        if all(kernel.schedule.family != ATTENTION.name for kernel in gpu.kernels):  # TF32: see tests/emit
            from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
            compare(graph, run_on_cpu(graph, gpu, values, Adversary(Order.SHUFFLED), aligned=aligned), want, allowed,
                    "CUDA on a CPU")
    if cuda and gpu.source:
        build_cubin(gpu)
