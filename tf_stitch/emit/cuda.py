"""CUDA C++ source: launches, of one program or of several independent ones (horizontal packing), and what they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from tf_stitch.emit.attention import (
    TEMPLATE,
    attention_template,
)
from tf_stitch.emit.c_family import FLOAT8, Lines
from tf_stitch.emit.comments import after
from tf_stitch.emit.cuda_kernel import ATOMICS, EARLY_LOAD, PREFETCH, CudaKernel, pointer_to
from tf_stitch.emit.matmul import TEMPLATE as MATMUL
from tf_stitch.emit.matmul import matmul_template
from tf_stitch.emit.rendered import SELF, Packed, Rendered, named, parts_of
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import awaits_itself
from tf_stitch.kernel_ir.side_by_side import blocks_of, cluster_of


@dataclass(frozen=True)
class Dialect:
    """A C++ of CUDA's family.

    Attributes:
        intrinsics: source that gives a meaning to what cuda_prelude.cu says in PTX (it defines TFS_WITHOUT_PTX,
            TFS_WARP and those functions, but for what its devices cannot do); "": PTX it is.
    """

    intrinsics: str = ""


CUDA = Dialect()

_SHARED_WITH_C = {"random_bits.h": ("tfs_random_bits(",), "float8.h": (FLOAT8,)}
"""Headers -> what a text has in it that needs them."""
_FOR_SHARED = ("#define TFS_FUNCTION __device__ __forceinline__", "#define TFS_BITS_OF __float_as_int",
               "#define TFS_FLOAT_OF __int_as_float")


def cuda_launches(programs: Sequence[tuple[str, k.Program]], launches: Sequence[Packed]) -> list[Rendered]:
    """Each launch is `extern "C" __global__ void name(pointers...)`, the pointers being the members' parameters in
    order, and calls a function for each."""
    emitters = [CudaKernel(program) for _, program in programs]
    functions = {name: _text((*emitter.head(), *emitter.function(name)))
                 for emitter, (name, _) in zip(emitters, programs, strict=True)}
    made = []
    for launch in launches:
        members = [(programs[i][0], emitters[i]) for i in launch.members]
        called = {name: functions[name] for name, _ in members}
        own = _text(_launch(launch.name, members, launch.resident))
        made.append(Rendered(launch.name, called | {launch.name: own}, ()))
    return made


def emit_cuda(programs: Sequence[tuple[str, k.Program]], launches: Sequence[Packed], dialect: Dialect = CUDA) -> str:
    """One translation unit of `cuda_launches`."""
    return join_cuda(parts_of(cuda_launches(programs, launches)), dialect)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def render_cuda(members: Sequence[k.Program], resident: int = 0) -> Rendered:
    """One launch of programs side by side whose sizes are parameters: 64-bit integers after all pointers, those of the
    members in order.

    Args:
        resident: see Packed.
    """
    parts: dict[str, str] = {}
    called: list[tuple[str, CudaKernel]] = []
    for program in members:
        emitter = CudaKernel(program)
        name, text = named("kernel", (*emitter.head(), *emitter.function(SELF)))
        parts[name] = text
        called.append((name, emitter))
    symbol, text = named("launch", _launch(SELF, called, resident))
    parts[symbol] = text
    return Rendered(symbol, parts, tuple(a.value for _, emitter in called for a in emitter.sizes))


def join_cuda(parts: Mapping[str, str], dialect: Dialect = CUDA) -> str:
    """A translation unit of rendered functions."""
    return _with_prelude("\n".join(parts.values()), dialect)


def _with_prelude(text: str, dialect: Dialect) -> str:
    """The text after what it needs."""
    prelude = (resources.files("tf_stitch.emit") / "cuda_prelude.cu").read_text()
    parts = [*filter(None, [dialect.intrinsics]), prelude, *([attention_template()] if TEMPLATE in text else [])]
    if MATMUL in text:
        parts.append(matmul_template(TEMPLATE not in text, text))
    if EARLY_LOAD in text or PREFETCH in text:
        parts.append((resources.files("tf_stitch.emit") / "early_loads.cu").read_text())
    if ATOMICS in text:
        parts.append((resources.files("tf_stitch.emit") / "atomics.cu").read_text())
    shared = [name for name, marks in _SHARED_WITH_C.items() if any(mark in text for mark in marks)]
    if shared:
        parts += _FOR_SHARED
    parts += [(resources.files("tf_stitch.emit") / name).read_text() for name in shared]
    return "\n".join([*parts, text])


def _launch(launch: str, members: Sequence[tuple[str, CudaKernel]], resident: int) -> Lines:
    """The launch function of members whose functions have been written. How many blocks a processor is to hold is a
    macro where a builder may relax it. Blocks come to barriers of clusters where their own program has some."""
    threads = members[0][1].program.threads
    cluster = cluster_of([emitter.program for _, emitter in members])
    all_meet = all(emitter.program.cluster == cluster for _, emitter in members)
    pointers: list[str] = []
    sizes: list[str] = []
    grids: list[str] = []
    calls: list[tuple[str, ...]] = []
    for m, (name, emitter) in enumerate(members):
        program = emitter.program
        names = [f"p{m}_{b.name}" for b in program.parameters]
        pointers += [f"{pointer_to(b)}{n}" for b, n in zip(program.parameters, names, strict=True)]
        own = {atom: f"p{m}_{n}" for atom, n in emitter.sizes.items()}
        sizes += [f"long long {n}" for n in own.values()]
        block = f"blockIdx.x - start_{m}" if m else "blockIdx.x"
        given = [block, *names, *own.values(), *["barrier"] * program.cooperative]
        launched = blocks_of(program, cluster)
        begin = [f"if ({block} >= {program.grid}) return;"] if launched != program.grid else []
        begin += ["tfs_cluster_start();"] if program.cluster > 1 and not all_meet else []
        if not awaits_itself(program):
            begin += ["tfs_await_dependencies();", f"tfs_read_late({', '.join(names)});"]
        calls.append((*begin, f"{name}({', '.join(given)});"))
        grids.append((CudaKernel(program, own) if own else emitter).size(launched))
    blocks = str(resident)
    if members[0][1].program.cooperative:  # sizes do not vary here
        pointers.append("unsigned int* barrier")
    else:
        blocks = relaxable(launch)
        yield from (f"#ifndef {blocks}", f"#define {blocks} {resident}", "#endif")
    dims = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    yield (f'extern "C" __global__ void {dims}__launch_bounds__({threads}, {blocks}) {launch}'
           f'({", ".join([*pointers, *sizes])}) {{')
    if cluster > 1 and all_meet:
        yield "  tfs_cluster_start();"
    yield "  tfs_start_dependents();"
    for m, grid in enumerate(grids[:-1]):
        before = f"start_{m} + " if m else ""
        what = "" if m else "each kernel has a range of blocks"
        yield after(f"  const long long start_{m + 1} = {before}{grid};", what)
    yield from _chosen(calls, 0)
    yield "}"


def _chosen(calls: Sequence[tuple[str, ...]], first: int) -> Lines:
    """The call whose range of blocks a block is in, found by halves: a pack has many, and a block may have little to
    do. `first` is the number of the first call."""
    if len(calls) == 1:
        yield from (f"  {line}" for line in calls[0])
        return
    middle = len(calls) // 2
    yield f"  if (blockIdx.x < start_{first + middle}) {{"
    yield from (f"  {line}" for line in _chosen(calls[:middle], first))
    yield "  } else {"
    yield from (f"  {line}" for line in _chosen(calls[middle:], first + middle))
    yield "  }"


def relaxable(launch: str) -> str:
    """The macro that says how many blocks of a launch a processor is to hold; one more register each, the fewer."""
    return f"{launch}_RESIDENT"
