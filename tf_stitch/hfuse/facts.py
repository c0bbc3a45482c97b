"""What a source does that is not the same in a block of two kernels: thread numbers, barriers, shared memory, returns.

Everything in the source counts but other kernels, which are left out: calls of templates cannot be followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tf_stitch.hfuse.rewrite import Edit
from tf_stitch.hfuse.source import Cursor, Kernel, Source, end, in_text, is_kernel, start, walk
from tf_stitch.hfuse.uniform import is_uniform

PLACES = {
    "threadIdx": "hfuse_thread()",
    "blockIdx": "hfuse_block()",
    "blockDim": "hfuse_block_dim()",
    "gridDim": "hfuse_grid_dim()",
}
BARRIERS = {
    "__syncthreads": "hfuse_barrier",
    "__syncthreads_count": "hfuse_barrier_count",
    "__syncthreads_and": "hfuse_barrier_and",
    "__syncthreads_or": "hfuse_barrier_or",
}
TAKEN = "hfuse_"
"""How names begin that are added to sources."""
GROUPS = {
    "this_grid": "a barrier of the whole grid needs every block of its kernel, and no others, to be resident",
    "this_cluster": "clusters of blocks are set by the launch, for both kernels alike",
}
REFUSED = {
    "__cluster_barrier_arrive": GROUPS["this_cluster"],
    "__cluster_barrier_wait": GROUPS["this_cluster"],
    "cudaGridDependencySynchronize": "a launch that depends on another is of both kernels alike",
    "cudaTriggerProgrammaticLaunchCompletion": "a launch that depends on another is of both kernels alike",
}
IN_PTX = (
    "bar.",
    "barrier",
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%warpid",
    "%dynamic_smem",
    "exit",
    "ret;",
    "griddepcontrol",
    "cluster",
)
"""What assembly may not hold: it means something else in a block of two kernels."""


@dataclass(frozen=True)
class Facts:
    """What is known of one kernel and its source.

    Attributes:
        edits: that make its places, barriers and dynamic shared memory those of a part.
        barriers: calls of barriers, in the order of the text.
        early_return: one that may leave a barrier behind that other threads of the kernel wait at, if any.
        static_bytes: shared memory whose size is known.
        largest_shared: the declaration of most of it, if any.
        dynamic: declarations of dynamic shared memory.
        alignment: of dynamic shared memory, bytes.
    """

    edits: tuple[Edit, ...]
    barriers: tuple[Cursor, ...]
    early_return: Cursor | None
    static_bytes: int
    largest_shared: Cursor | None
    dynamic: tuple[Cursor, ...]
    alignment: int


@lru_cache(maxsize=64)
def facts_of(kernel: Kernel) -> Facts:
    """Reads a kernel.

    Raises:
        SourceError: the kernel does what cannot be done in a block of two kernels.
    """
    source = kernel.source
    nodes = list(_kept(kernel))
    edits: list[Edit] = []
    refer = [(c, above) for c, above in nodes if c.kind.name == "DECL_REF_EXPR" and c.referenced is not None]
    for cursor, _ in refer:
        _refuse(source, cursor)
        new = (PLACES | BARRIERS).get(cursor.spelling)
        if new is not None and not in_text(cursor.referenced):
            edits.append(Edit(start(cursor), end(cursor), new))
    for cursor, _ in nodes:
        if cursor.kind.name in ("ASM_STMT", "GCC_ASM_STMT", "MS_ASM_STMT"):
            _refuse_assembly(source, cursor)
    shared = [(c, above) for c, above in nodes if c.kind.name == "VAR_DECL" and _has(c, "CUDASHARED_ATTR")]
    dynamic = [(c, above) for c, above in shared if c.storage_class.name == "EXTERN"]
    static = [c for c, _ in shared if c.storage_class.name != "EXTERN"]
    edits += [edit for c, above in dynamic for edit in _dynamic_edits(source, c, above, refer)]
    _refuse_variables(source, nodes)
    _check_tokens(kernel, edits)
    barriers = tuple(c for c, _ in refer if c.spelling in BARRIERS and not in_text(c.referenced))
    early = _early_return(kernel, barriers)
    if early is not None:
        _check_draining(source, early, refer, barriers)
    return Facts(
        tuple(edits),
        barriers,
        early,
        sum(max(0, c.type.get_size()) for c in static),
        max(static, key=lambda c: c.type.get_size(), default=None),
        tuple(c for c, _ in dynamic),
        max([16, *(_alignment(c) for c, _ in dynamic)]),
    )


def _kept(kernel: Kernel) -> Iterator[tuple[Cursor, tuple[Cursor, ...]]]:
    """All cursors of the source but those of other kernels."""

    def below(cursor: Cursor, above: tuple[Cursor, ...]) -> Iterator[tuple[Cursor, tuple[Cursor, ...]]]:
        if is_kernel(cursor) and cursor != kernel.cursor:
            return
        yield cursor, above
        for child in cursor.get_children():
            yield from below(child, (*above, cursor))

    for top in kernel.source.unit.cursor.get_children():
        if in_text(top):
            yield from below(top, ())


def _refuse(source: Source, cursor: Cursor) -> None:
    scope = cursor.referenced.semantic_parent
    if scope is not None and scope.spelling == "cooperative_groups":
        reason = GROUPS.get(
            cursor.spelling,
            "the block of a group is that of both kernels; write __syncthreads() and __shfl_sync() instead",
        )
        raise source.error(cursor, f"cooperative_groups::{cursor.spelling} cannot be fused: {reason}")
    if cursor.spelling in REFUSED and not in_text(cursor.referenced):
        raise source.error(cursor, f"{cursor.spelling} cannot be fused: {REFUSED[cursor.spelling]}")


def _refuse_assembly(source: Source, cursor: Cursor) -> None:
    for token in cursor.get_tokens():
        if token.kind.name == "LITERAL":
            found = next((word for word in IN_PTX if word in token.spelling), None)
            if found is not None:
                raise source.error(
                    int(token.extent.start.offset),
                    f"assembly with {found!r} cannot be fused: it means something else in a block of two kernels",
                )


def _refuse_variables(source: Source, nodes: list[tuple[Cursor, tuple[Cursor, ...]]]) -> None:
    """Variables of a file that a host sets, or that blocks change, have one address in the program: a copy will not
    do."""
    for cursor, above in nodes:
        if cursor.kind.name != "VAR_DECL" or any(a.kind.name in ("COMPOUND_STMT", "PARM_DECL") for a in above):
            continue
        device = _has(cursor, "CUDADEVICE_ATTR") or _has(cursor, "CUDACONSTANT_ATTR")
        initialized = any(c.kind.is_expression() for c in cursor.get_children())
        const = (
            cursor.type.is_const_qualified()
            or cursor.type.get_canonical().get_array_element_type().is_const_qualified()
            or _has(cursor, "CUDACONSTANT_ATTR")
        )
        if device and not (initialized and const):
            raise source.error(cursor, f"{cursor.spelling} is a variable of the program: pass a pointer to it instead")


def _dynamic_edits(
    source: Source, cursor: Cursor, above: tuple[Cursor, ...], refer: list[tuple[Cursor, tuple[Cursor, ...]]]
) -> Iterator[Edit]:
    """`extern __shared__ T name[]` becomes a pointer to the part's own memory."""
    element = cursor.type.element_type.spelling
    memory = f"hfuse_dynamic<{element}>()"
    statement = above[-1] if above else cursor
    if statement.kind.name == "DECL_STMT":
        if len(list(statement.get_children())) > 1:
            raise source.error(cursor, "declare one array of dynamic shared memory at a time")
        yield Edit(start(statement), end(statement), f"auto* const {cursor.spelling} = {memory};")
        return
    yield Edit(start(cursor), end(cursor))
    for reference, _ in refer:
        if reference.referenced == cursor:
            yield Edit(start(reference), end(reference), memory)


def _check_tokens(kernel: Kernel, edits: list[Edit]) -> None:
    """Nothing that has to be replaced is left: libclang does not show everything in a template."""
    source = kernel.source
    others = [(start(c), end(c)) for c in source.declarations if is_kernel(c) and c != kernel.cursor]
    covered = others + [(e.start, e.end) for e in edits]
    before = None
    for token in source.tokens:
        offset, spelling = int(token.extent.start.offset), token.spelling
        apart = any(first <= offset < last for first, last in covered)
        if token.kind.name == "IDENTIFIER" and not apart:
            if spelling in PLACES | BARRIERS:
                raise source.error(offset, f"it is not clear what {spelling} means here")
            if spelling.startswith(TAKEN):
                raise source.error(offset, f"{spelling}: names that begin with {TAKEN} are taken")
        if spelling in ("<<<", "__cluster_dims__") and not apart:
            raise source.error(
                offset,
                "a kernel that launches kernels cannot be fused"
                if spelling == "<<<"
                else f"__cluster_dims__ cannot be fused: {GROUPS['this_cluster']}",
            )
        if (
            spelling == "::"
            and not apart
            and (before is None or not (before.kind.name == "IDENTIFIER" or before.spelling in (">", ">>")))
        ):
            raise source.error(offset, "leave the leading :: out: what is global becomes part of a namespace")
        before = token


def _early_return(kernel: Kernel, barriers: tuple[Cursor, ...]) -> Cursor | None:
    """The first return of some threads alone, of the kernel itself, that comes before a barrier may be met: the barrier
    stands behind it, or in a loop with it, or in a function, which a call behind it may lead to."""
    outside = kernel.cursor
    where = [start(b) for b in barriers]
    helpers = any(not start(outside) <= offset < end(outside) for offset in where)
    for cursor, above in walk(kernel.body):
        if cursor.kind.name != "RETURN_STMT" or any(a.kind.name == "LAMBDA_EXPR" for a in above):
            continue
        loops = [a for a in above if a.kind.name in ("FOR_STMT", "WHILE_STMT", "DO_STMT", "CXX_FOR_RANGE_STMT")]
        first = start(loops[0]) if loops else start(cursor)
        behind = any(first <= offset < end(outside) for offset in where)
        calls = helpers and any(
            c.kind.name == "CALL_EXPR" and start(c) >= first and c.referenced is not None and in_text(c.referenced)
            for c, _ in walk(kernel.body)
        )
        unresolved = helpers and kernel.is_template
        if (behind or calls or unresolved) and not is_uniform(cursor, above, kernel):
            return cursor
    return None


def _check_draining(
    source: Source, early: Cursor, refer: list[tuple[Cursor, tuple[Cursor, ...]]], barriers: tuple[Cursor, ...]
) -> None:
    """Threads that return early stay for their kernel's barriers. A shuffle of all lanes would wait for them."""
    line = source.line(early)
    for cursor, _ in refer:
        if (
            cursor.spelling.endswith("_sync") and cursor.spelling.startswith("__") and not in_text(cursor.referenced)
        ) or cursor.spelling == "__syncwarp":
            raise source.error(
                cursor,
                f"{cursor.spelling} and the return of some threads before a barrier (line {line}) "
                "cannot be fused: let all threads of the block stay to the end",
            )
    for barrier in barriers:
        if barrier.spelling != "__syncthreads":
            raise source.error(
                barrier,
                f"{barrier.spelling} and the return of some threads before a barrier (line "
                f"{line}) cannot be fused: let all threads of the block stay to the end",
            )


def _alignment(cursor: Cursor) -> int:
    """Of a dynamic array: its elements', or what its declaration asks for."""
    asked = 1
    for child in cursor.get_children():
        if child.kind.name == "ALIGNED_ATTR" or child.kind.name == "UNEXPOSED_ATTR":
            asked = max([asked, *(_number(t.spelling) for t in child.get_tokens())])
    return max(asked, *_align_tokens(cursor), int(cursor.type.element_type.get_align()))


def _align_tokens(cursor: Cursor) -> list[int]:
    """Numbers of `__align__(n)` and `alignas(n)` in a declaration."""
    tokens = [t.spelling for t in cursor.get_tokens()]
    return [_number(tokens[i + 2]) for i, t in enumerate(tokens[:-2]) if t in ("__align__", "alignas")] or [1]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 1


def _has(cursor: Cursor, attribute: str) -> bool:
    return any(c.kind.name == attribute for c in cursor.get_children())
