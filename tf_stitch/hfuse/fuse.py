"""One source of two kernels: side by side in the threads of a block (HFuse, Fig. 5), or one behind the other.

Each source becomes a namespace, and each kernel a function of it that the fused kernel calls for the threads of its
part. So no name clashes with one of the other source, and a return ends one part alone. The paper lifts declarations
and jumps over statements instead, since it has all calls inlined first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from tf_stitch.hfuse.barriers import barrier_functions
from tf_stitch.hfuse.facts import Facts, facts_of
from tf_stitch.hfuse.launch import GRAIN, MOST_BLOCKS, MOST_STATIC_BYTES, MOST_THREADS, Shape, shared_limit
from tf_stitch.hfuse.rewrite import Edit, apply
from tf_stitch.hfuse.source import Cursor, Kernel, Source, end, is_kernel, start

_GONE = {"__launch_bounds__", "__maxnreg__", "__grid_constant__", "__cluster_dims__"}
"""Of a kernel's declaration: a function has none of these."""
_NUMBERS = {
    "BOOL",
    "CHAR_U",
    "UCHAR",
    "USHORT",
    "UINT",
    "ULONG",
    "ULONGLONG",
    "CHAR_S",
    "SCHAR",
    "SHORT",
    "INT",
    "LONG",
    "LONGLONG",
    "FLOAT",
    "DOUBLE",
    "VOID",
}
"""Kinds of types, in libclang's words."""


@dataclass(frozen=True)
class Part:
    """A kernel in a fused one."""

    kernel: Kernel
    shape: Shape
    facts: Facts


@dataclass(frozen=True)
class Fused:
    """A fused kernel.

    Attributes:
        symbol: its name; its parameters are those of the first kernel, then those of the second.
        threads: of a block, in one dimension.
        blocks: of the grid, in one dimension.
        dynamic_bytes: shared memory that its launch has to ask for.
        parameters: how many the first kernel has.
        resident: blocks that are to run on a processor at one time; 1: no bound.
    """

    source: str
    symbol: str
    threads: int
    blocks: int
    dynamic_bytes: int
    parameters: int
    resident: int = 1


def fuse(
    kernels: Sequence[Kernel],
    shapes: Sequence[Shape],
    architecture: str,
    vertical: bool = False,
    resident: int = 1,
    symbol: str = "",
) -> Fused:
    """Fuses kernels.

    Args:
        kernels: two; with one, its own launch in one dimension.
        shapes: how each is launched.
        architecture: compute capability, as "90".
        vertical: the same threads run one kernel behind the other, as standard fusion does.
        resident: blocks that are to run on a processor at one time: a bound on the registers of a thread.
        symbol: the name of the fused kernel; by default made of the kernels'.

    Raises:
        SourceError: they cannot be fused; with file, line and reason.
    """
    parts = [Part(kernel, shape, facts_of(kernel)) for kernel, shape in zip(kernels, shapes, strict=True)]
    threads = max(_threads(parts)) if vertical else sum(_threads(parts))
    _check(parts, threads, architecture)
    if vertical:
        _check_order(parts)
    symbol = symbol or "_".join([*(p.kernel.cursor.spelling for p in parts), "vfused" if vertical else "hfused"])
    dynamic, offsets = _side_by_side(parts)
    firsts = [0 if vertical else sum(_threads(parts[:i])) for i in range(len(parts))]
    namespaces = [_namespace(part, i + 1, firsts[i], offsets[i]) for i, part in enumerate(parts)]
    prelude = (resources.files("tf_stitch.hfuse") / "barriers.cu").read_text()
    memory = f"extern __shared__ __align__({max(p.facts.alignment for p in parts)}) unsigned char tfs_shared[];\n"
    source = "\n".join(
        [
            _head(parts, threads, dynamic, vertical),
            prelude,
            memory if dynamic else "",
            *namespaces,
            _kernel(parts, firsts, threads, resident, symbol, vertical),
        ]
    )
    return Fused(
        source, symbol, threads, max(p.shape.blocks for p in parts), dynamic, len(parts[0].kernel.parameters), resident
    )


def _threads(parts: Sequence[Part]) -> list[int]:
    """Threads of each part."""
    return [part.shape.threads for part in parts]


def _check_order(parts: Sequence[Part]) -> None:
    """Threads that return early wait for their kernel's barriers elsewhere than the rest of their warp does. No thread
    waits for ever if those of a warp go on independently; tests run it so. But compilers bring a warp together (BSYNC)
    where its threads left each other, before the returned ones come to a barrier, and what hardware does then is
    written nowhere. Side by side, and as the last kernel, such kernels passed on an H100. With another kernel behind
    them three of three did not end."""
    for part in parts[:-1]:
        if part.facts.barriers and part.facts.early_return is not None:
            raise part.kernel.source.error(
                part.facts.early_return,
                "threads that return here leave others at a barrier behind: no kernel can follow in the same threads "
                "(fuse side by side, or put this kernel last)",
            )


def _check(parts: Sequence[Part], threads: int, architecture: str) -> None:
    for part in parts:
        kernel, shape = part.kernel, part.shape
        if shape.threads % GRAIN:
            raise kernel.source.error(
                kernel.cursor,
                f"{kernel.name} has blocks of {shape.threads} threads; parts are multiples of a warp, {GRAIN} threads",
            )
        if shape.blocks > MOST_BLOCKS:
            raise kernel.source.error(
                kernel.cursor,
                f"{kernel.name} has {shape.blocks} blocks in all, and the fused "
                f"kernel's grid of one dimension has {MOST_BLOCKS} at most",
            )
        if shape.dynamic_bytes and not part.facts.dynamic:
            raise kernel.source.error(
                kernel.cursor,
                f"{kernel.name} is launched with {shape.dynamic_bytes} bytes of "
                "dynamic shared memory, and declares none",
            )
        if part.facts.dynamic and not shape.dynamic_bytes:
            raise kernel.source.error(
                part.facts.dynamic[0], f"{kernel.name} uses dynamic shared memory, and its launch asks for none"
            )
    last = parts[-1].kernel
    if threads > MOST_THREADS:
        raise last.source.error(
            last.cursor, f"the fused kernel would have blocks of {threads} threads; {MOST_THREADS} at most"
        )
    static = sum(part.facts.static_bytes for part in parts)
    dynamic = _side_by_side(parts)[0]
    limit = shared_limit(architecture)
    if static > MOST_STATIC_BYTES or static + dynamic > limit:
        most = max(parts, key=lambda p: p.facts.static_bytes + p.shape.dynamic_bytes)
        at = most.facts.largest_shared if most.facts.static_bytes > most.shape.dynamic_bytes else most.facts.dynamic[0]
        bound = f"{MOST_STATIC_BYTES} of them static" if static > MOST_STATIC_BYTES else f"{limit} in all"
        raise most.kernel.source.error(
            at,
            f"the kernels use {static + dynamic} bytes of shared memory side by side "
            f"({static} static, {dynamic} dynamic); a block of sm_{architecture} has at "
            f"most {bound}",
        )


def _side_by_side(parts: Sequence[Part]) -> tuple[int, list[int]]:
    """Dynamic shared memory of all parts, and where each part's begins. Of vertically fused kernels, too: threads that
    are ahead may use the second one's memory while others still use the first one's."""
    at = 0
    offsets = []
    for part in parts:
        at = -(-at // part.facts.alignment) * part.facts.alignment
        offsets.append(at)
        at += part.shape.dynamic_bytes
    return at, offsets


def _head(parts: Sequence[Part], threads: int, dynamic: int, vertical: bool) -> str:
    how = "one behind the other" if vertical else "side by side"
    lines = [
        f"// Kernels {how}, made by `tf_stitch hfuse`. Launch: blocks of {threads} threads, "
        f"{max(p.shape.blocks for p in parts)} blocks, {dynamic} bytes of dynamic shared memory."
    ]
    lines += [
        f"//   {p.kernel.qualified}: blocks of {_text(p.shape.block)}, a grid of {_text(p.shape.grid)}" for p in parts
    ]
    return "\n".join(lines)


def _text(dims: tuple[int, int, int]) -> str:
    return " x ".join(map(str, dims))


def _namespace(part: Part, number: int, first: int, offset: int) -> str:
    kernel, shape, facts = part.kernel, part.shape, part.facts
    head = "__device__ __forceinline__"
    functions = [
        f"{head} uint3 hfuse_thread() {{ return {_place(f'(threadIdx.x - {first}u)', shape.block)}; }}",
        f"{head} uint3 hfuse_block() {{ return {_place('blockIdx.x', shape.grid)}; }}",
        f"{head} dim3 hfuse_block_dim() {{ return dim3({', '.join(map(str, shape.block))}); }}",
        f"{head} dim3 hfuse_grid_dim() {{ return dim3({', '.join(map(str, shape.grid))}); }}",
        *barrier_functions(number, shape.threads, facts),
    ]
    if facts.dynamic:
        functions.append(
            f"template <class T> {head} T* hfuse_dynamic() {{ return reinterpret_cast<T*>(tfs_shared + {offset}); }}"
        )
    body = apply(kernel.source.text, [*facts.edits, *_own_edits(kernel)]).decode()
    return "\n".join(
        [
            f"namespace hfuse_{number} {{",
            *functions,
            *_hidden(kernel.source),
            body.strip(),
            f"}}  // namespace hfuse_{number}\n",
        ]
    )


def _place(number: str, dims: tuple[int, int, int]) -> str:
    x, y, z = dims
    if y == z == 1:
        return f"make_uint3({number}, 0, 0)"
    return f"make_uint3({number} % {x}u, {number} / {x}u % {y}u, {number} / {x * y}u)"


@lru_cache(maxsize=64)
def _hidden(source: Source) -> list[str]:
    """CUDA's functions that the source overloads: in a namespace, its own would hide them."""
    own = {c.spelling for c in source.declarations if c.kind.name in ("FUNCTION_DECL", "FUNCTION_TEMPLATE")}
    theirs = {
        c.spelling
        for c in source.unit.cursor.get_children()
        if c.kind.name in ("FUNCTION_DECL", "FUNCTION_TEMPLATE") and c not in source.declarations
    }
    return [f"using ::{name};" for name in sorted(own & theirs)]


@lru_cache(maxsize=64)  # every partition of a search asks
def _own_edits(kernel: Kernel) -> list[Edit]:
    """The kernel becomes a function; other kernels go; what is extern "C" becomes C++."""
    source = kernel.source
    edits = [
        Edit(start(c), _statement_end(source, end(c)))
        for c in source.declarations
        if is_kernel(c) and c != kernel.cursor
    ]
    for cursor in source.declarations:
        edits += _without_linkage(source, cursor)
    opening = start(kernel.body)
    tokens = [t for t in source.tokens if start(kernel.cursor) <= t.extent.start.offset < opening]
    for i, token in enumerate(tokens):
        at, to = int(token.extent.start.offset), int(token.extent.end.offset)
        if token.spelling == "__global__":
            edits.append(Edit(at, to, "__device__ __forceinline__"))
        elif token.spelling in _GONE:
            edits.append(Edit(at, _closing(tokens, i) if _calls(tokens, i) else to))
        elif token.spelling in ("inline", "__forceinline__", "__noinline__", "static"):
            edits.append(Edit(at, to))
    edits.append(Edit(start(kernel.cursor), start(kernel.cursor), _parameter_types(kernel)))
    return edits


def _calls(tokens: Sequence[Cursor], i: int) -> bool:
    return i + 1 < len(tokens) and tokens[i + 1].spelling == "("


def _closing(tokens: Sequence[Cursor], i: int) -> int:
    depth = 0
    for token in tokens[i + 1 :]:
        depth += {"(": 1, ")": -1}.get(token.spelling, 0)
        if depth == 0:
            return int(token.extent.end.offset)
    return int(tokens[-1].extent.end.offset)


def _statement_end(source: Source, at: int) -> int:
    """Past the semicolon of a declaration, if it has one."""
    rest = source.text[at:]
    return at + len(rest) - len(rest.lstrip()) + 1 if rest.lstrip().startswith(b";") else at


def _without_linkage(source: Source, cursor: Cursor) -> list[Edit]:
    """Takes `extern "C"` and its braces off."""
    tokens = list(cursor.get_tokens())
    if (
        len(tokens) < 2
        or tokens[0].spelling != "extern"
        or not tokens[1].spelling.startswith('"')
        or cursor.kind.name not in ("LINKAGE_SPEC", "UNEXPOSED_DECL")
    ):
        return []
    edits = [Edit(int(tokens[0].extent.start.offset), int(tokens[1].extent.end.offset))]
    if len(tokens) > 2 and tokens[2].spelling == "{":
        edits += [Edit(int(t.extent.start.offset), int(t.extent.end.offset)) for t in (tokens[2], tokens[-1])]
    return edits


def _parameter_types(kernel: Kernel) -> str:
    """Names for the types of the kernel's parameters, which the fused kernel's are declared with."""
    template = ""
    if kernel.is_template:
        last = max(end(c) for c in kernel.cursor.get_children() if c.kind.name.startswith("TEMPLATE_"))
        closing = kernel.source.text.index(b">", last) + 1
        template = kernel.source.text[start(kernel.cursor) : closing].decode() + " "
    lines = [
        f"{template}using {_alias(kernel, i)} = {parameter.type.spelling};\n"
        for i, parameter in enumerate(kernel.parameters)
        if _built_in(parameter.type) is None
    ]
    return "".join(lines)


def _alias(kernel: Kernel, index: int) -> str:
    return f"hfuse_{kernel.cursor.spelling}_{index}"


def _built_in(of: Cursor) -> str | None:
    """A type that means the same everywhere: a number, or a pointer to numbers."""
    canonical = of.get_canonical()
    inner = canonical
    while inner.kind.name == "POINTER":
        inner = inner.get_pointee()
    return str(canonical.spelling) if inner.kind.name in _NUMBERS else None


def _kernel(
    parts: Sequence[Part], firsts: Sequence[int], threads: int, resident: int, symbol: str, vertical: bool
) -> str:
    blocks = max(part.shape.blocks for part in parts)
    names = _parameter_names(parts)
    declared = [f"{_type(part.kernel, i, j)} {name}" for i, part in enumerate(parts) for j, name in enumerate(names[i])]
    bounds = f"{threads}, {resident}" if resident > 1 else f"{threads}"
    lines = [f'extern "C" __global__ void __launch_bounds__({bounds}) {symbol}({", ".join(declared)}) {{']
    for i, part in enumerate(parts):
        guards = []
        if len(parts) > 1 and not vertical:
            guards.append(f"threadIdx.x < {firsts[1]}" if i == 0 else "")
        elif part.shape.threads < threads:
            guards.append(f"threadIdx.x < {part.shape.threads}")
        mine = f"blockIdx.x < {part.shape.blocks}" if part.shape.blocks < blocks else ""
        call = f"hfuse_{i + 1}::{part.kernel.qualified}({', '.join(names[i])});"
        leave = f" hfuse_{i + 1}::hfuse_leave();" if part.facts.barriers and part.facts.early_return else ""
        inside = f"if ({mine}) {{ {call}{leave} }}" if mine else f"{call}{leave}"
        guard = " && ".join(filter(None, guards))
        if i and not vertical:
            lines.append(f"  }} else {{\n    {inside}")
        else:
            lines.append(f"  {f'if ({guard}) ' if guard else ''}{{\n    {inside}")
        if vertical or len(parts) == 1:
            lines.append("  }")
    return "\n".join([*lines, *([] if vertical or len(parts) == 1 else ["  }"]), "}\n"])


def _type(kernel: Kernel, part: int, index: int) -> str:
    """Of a kernel's parameter, outside of its namespace."""
    built_in = _built_in(kernel.parameters[index].type)
    scope = kernel.qualified.removesuffix(kernel.arguments).removesuffix(kernel.cursor.spelling)
    return built_in or f"hfuse_{part + 1}::{scope}{_alias(kernel, index)}{kernel.arguments}"


def _parameter_names(parts: Sequence[Part]) -> list[list[str]]:
    """Of the fused kernel: as they are, or with the number of the kernel where both have one of that name."""
    own = [[p.spelling or f"parameter_{i}" for i, p in enumerate(part.kernel.parameters)] for part in parts]
    all_names = [name for names in own for name in names]
    taken = set(all_names)
    result = []
    for number, names in enumerate(own, 1):
        renamed = []
        for name in names:
            new = name if all_names.count(name) == 1 else f"{name}_{number}"
            while new != name and new in taken:
                new += "_"
            taken.add(new)
            renamed.append(new)
        result.append(renamed)
    return result
