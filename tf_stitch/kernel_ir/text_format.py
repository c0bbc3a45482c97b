"""Kernel programs as text: for people, dumps and goldens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.rename import in_users_names
from tf_stitch.kernel_ir.tile_statement import TileStatement

_INFIX = {OpKind.ADD: "+", OpKind.SUB: "-", OpKind.MUL: "*", OpKind.DIV: "/", OpKind.LESS: "<",
          OpKind.LESS_EQUAL: "<=", OpKind.GREATER: ">", OpKind.GREATER_EQUAL: ">=", OpKind.EQUAL: "==",
          OpKind.NOT_EQUAL: "!="}
_LONGEST_CONSTANT = 8


def format_program(program: k.Program) -> str:
    """The program's buffers, then its statements, nested by two spaces.

    `let` names a value, `var` a mutable scalar; `v[a:+4]` is four neighbouring elements.
    """
    cost = f" cost={program.cost}" if program.cost else ""
    program = in_users_names(program)
    cluster = f" cluster={program.cluster}" if program.cluster > 1 else ""
    lines = [f"program grid={program.grid} threads={program.threads}{cluster}{cost}"]
    if program.title:
        lines.append(f"  // {_one_line(program.title)}")
    lines += [f"  {b.mode.value} {b.name}: {b.dtype.value}[{b.size}]{_values(b)}{_note(b.note)}"
              for b in program.buffers]
    lines += _block(program.body, "  ")
    return "\n".join(lines) + "\n"


def format_expr(expr: k.Expr) -> str:
    """An expression on one line."""
    match expr:
        case k.Literal(value, dtype):
            return f"{_number(value)}:{dtype.value}"
        case k.Local(name):
            return name
        case k.FromIndex(index, dtype):
            return f"{dtype.value}({index})"
        case k.Load(buffer, index):
            return f"{buffer}[{index}]"
        case k.Element(array, index):
            return f"{array}[{index}]"
        case k.InRange(index, low, high):
            return f"({low} <= {index} < {high})"
        case k.Apply(OpKind.CAST, args, dtype):
            return f"{dtype.value}({format_expr(args[0])})"
        case k.Apply(kind, args):
            texts = [format_expr(a) for a in args]
            return f"({f' {_INFIX[kind]} '.join(texts)})" if kind in _INFIX else f"{kind.value}({', '.join(texts)})"


_LINE: ByType[str] = ByType("the printer")
"""The one line of a statement without a body."""
_LINES: ByType[Iterator[str]] = ByType("the printer", otherwise=lambda stmt, indent: iter([indent + _line(stmt)]))
"""All lines of a statement: (stmt, indent)."""


def _block(body: Sequence[k.Stmt], indent: str) -> Iterator[str]:
    for stmt in body:
        yield from _LINES.of(stmt)(stmt, indent)


def _line(stmt: k.Stmt) -> str:
    return _LINE.of(stmt)(stmt)


@_LINES(k.For)
def _for(stmt: k.For, indent: str) -> Iterator[str]:
    until = f" while {stmt.var.name} < {stmt.limit}" if stmt.limit is not None else ""
    by = f" by {stmt.together}" if stmt.loop is k.Loop.SERIAL and stmt.together != k.TOGETHER else ""
    yield f"{indent}for {stmt.var.name} in 0..{stmt.var.extent - 1} {stmt.loop.value}{by}{until}:"
    yield from _block(stmt.body, indent + "  ")


@_LINES(k.GridLoop)
def _grid_loop(stmt: k.GridLoop, indent: str) -> Iterator[str]:
    together = f", {stmt.group} blocks together" if stmt.group > 1 else ""
    order = f"{stmt.blocks - 1}..0" if stmt.backwards else f"0..{stmt.blocks - 1}"
    yield f"{indent}for {k.BLOCK} in {order} over the grid{together}:"
    yield from _block(stmt.body, indent + "  ")


@_LINES(k.ThreadRange)
def _thread_range(stmt: k.ThreadRange, indent: str) -> Iterator[str]:
    last = stmt.first + stmt.threads - 1
    yield f"{indent}threads {stmt.first}..{last} of blocks 0..{stmt.blocks - 1}:"
    yield from _block(stmt.body, indent + "  ")


@_LINES(TileStatement)
def _tile(stmt: TileStatement, indent: str) -> Iterator[str]:
    yield from (indent + line for line in stmt.lines(_block))


@_LINES(k.If)
def _if(stmt: k.If, indent: str) -> Iterator[str]:
    yield f"{indent}if {format_expr(stmt.condition)}:"
    yield from _block(stmt.body, indent + "  ")
    if stmt.orelse:
        yield f"{indent}else:"
        yield from _block(stmt.orelse, indent + "  ")


@_LINES(k.Let, k.Accumulator, k.Array)
def _noted(stmt: k.Let | k.Accumulator | k.Array, indent: str) -> Iterator[str]:
    yield indent + _line(stmt) + _note(stmt.note)


@_LINE(k.Let)
def _let(stmt: k.Let) -> str:
    return f"let {stmt.name}: {stmt.value.dtype.value} = {format_expr(stmt.value)}"


@_LINE(k.LetIndex)
def _let_index(stmt: k.LetIndex) -> str:
    text = str(stmt.source) if isinstance(stmt.source, Index) else format_expr(stmt.source)
    return f"let {stmt.var.name}: index = clamp({text}, 0, {stmt.limit})"


@_LINE(k.Accumulator)
def _accumulator(stmt: k.Accumulator) -> str:
    return f"var {stmt.name}: {stmt.dtype.value} = {stmt.init}"


@_LINE(k.Update)
def _update(stmt: k.Update) -> str:
    return f"{stmt.name} = {stmt.combine.value}({stmt.name}, {format_expr(stmt.value)})"


@_LINE(k.Assign)
def _assign(stmt: k.Assign) -> str:
    return f"{stmt.name} = {format_expr(stmt.value)}"


@_LINE(k.ArgUpdate)
def _arg_update(stmt: k.ArgUpdate) -> str:
    pair = f"({stmt.best}, {stmt.at})"
    return f"{pair} = {stmt.kind.value}({pair}, ({format_expr(stmt.value)}, {stmt.index}))"


@_LINE(k.Array)
def _array(stmt: k.Array) -> str:
    place = "" if stmt.offset is None else f" at {stmt.offset}"
    place += " carried" * stmt.carried + " received" * stmt.received + " packed" * stmt.packed
    first = "" if stmt.init is None else f" = {stmt.init}"
    return f"{stmt.space.value} {stmt.name}: {stmt.dtype.value}[{stmt.size}]{place}{first}"


@_LINE(k.SetElement)
def _set_element(stmt: k.SetElement) -> str:
    element, text = f"{stmt.array}[{stmt.index}]", format_expr(stmt.value)
    combine = "fused_" * stmt.fused + stmt.combine.value if stmt.combine else ""
    return f"{element} = " + (f"{combine}({element}, {text})" if combine else text)


@_LINE(k.Accumulate)
def _accumulate(stmt: k.Accumulate) -> str:
    element = f"{stmt.buffer}[{stmt.index}]"
    both = (format_expr(stmt.value), element) if stmt.updates_first else (element, format_expr(stmt.value))
    return f"{element} = {stmt.combine.value}({', '.join(both)})"


@_LINE(k.Store)
def _store(stmt: k.Store) -> str:
    return f"{stmt.buffer}[{stmt.index}] = {format_expr(stmt.value)}"


@_LINE(k.LoadVector)
def _load_vector(stmt: k.LoadVector) -> str:
    return f"{stmt.array}[{stmt.at}:+{stmt.width}] = {stmt.buffer}[{stmt.index}:+{stmt.width}]"


@_LINE(k.LoadFence)
def _load_fence(stmt: k.LoadFence) -> str:
    return f"load_fence {', '.join(stmt.names)}"


@_LINE(k.AwaitDependencies)
def _await_dependencies(stmt: k.AwaitDependencies) -> str:
    return "await dependencies"


@_LINE(k.StoreVector)
def _store_vector(stmt: k.StoreVector) -> str:
    return f"{stmt.buffer}[{stmt.index}:+{stmt.width}] = {stmt.array}[0:+{stmt.width}]"


@_LINE(k.AllReduce)
def _all_reduce(stmt: k.AllReduce) -> str:
    members = ", ".join(f"{kind.value} {name}" for name, kind in stmt.members)
    return f"all_reduce over {stmt.width} threads{_at(stmt.barrier)}: {members}"


@_LINE(k.ArgAllReduce)
def _arg_all_reduce(stmt: k.ArgAllReduce) -> str:
    return f"all_reduce over {stmt.width} threads{_at(stmt.barrier)}: {stmt.kind.value} ({stmt.best}, {stmt.at})"


@_LINE(k.AsyncCopy)
def _async_copy(stmt: k.AsyncCopy) -> str:
    where = "" if stmt.inside is None else f" if {format_expr(stmt.inside)}"
    return f"async_copy {stmt.array}[{stmt.at}:+{stmt.width}] = {stmt.buffer}[{stmt.index}:+{stmt.width}]{where}"


@_LINE(k.AwaitAsyncCopies)
def _await_async_copies(stmt: k.AwaitAsyncCopies) -> str:
    return f"await all copies but {stmt.pending}"


@_LINE(k.Prefetch)
def _prefetch(stmt: k.Prefetch) -> str:
    return f"prefetch {stmt.buffer}[{stmt.index}:+{stmt.count}]"


@_LINE(k.Send)
def _send(stmt: k.Send) -> str:
    return f"{stmt.array}[{stmt.index}] of block {stmt.block} of the cluster = {format_expr(stmt.value)}"


@_LINE(k.Fail)
def _fail(stmt: k.Fail) -> str:
    return f"fail unless {format_expr(stmt.unless)}"


@_LINE(k.Comment)
def _comment(stmt: k.Comment) -> str:
    return f"// {_one_line(stmt.line)}"


@_LINE(k.Barrier)
def _barrier(stmt: k.Barrier) -> str:
    return f"barrier{_at(stmt.barrier)}"


def _at(barrier: k.BlockBarrier) -> str:
    return "" if barrier == k.WHOLE_BLOCK else f" at {barrier.id} of {barrier.threads}"


@_LINE(k.GridBarrier)
def _grid_barrier(stmt: k.GridBarrier) -> str:
    return "grid barrier"


@_LINE(k.GroupBarrier)
def _group_barrier(stmt: k.GroupBarrier) -> str:
    return "group barrier"


@_LINE(k.ClusterStarted)
def _cluster_started(stmt: k.ClusterStarted) -> str:
    return "cluster started"


@_LINE(k.ClusterBarrier)
def _cluster_barrier(stmt: k.ClusterBarrier) -> str:
    return "cluster barrier"


def _number(value: float) -> str:
    """A size that changes by its polynomial."""
    if isinstance(value, bool | SymbolicDim):
        return str(value).lower()
    return f"{value:g}"


def _values(buffer: k.Buffer) -> str:
    if buffer.constant is None:
        return ""
    shown = ", ".join(f"{v:g}" for v in buffer.constant[:_LONGEST_CONSTANT])
    return f" = [{shown}{', ...' if len(buffer.constant) > _LONGEST_CONSTANT else ''}]"


def _note(note: str) -> str:
    return f"  // {_one_line(note)}" if note else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
