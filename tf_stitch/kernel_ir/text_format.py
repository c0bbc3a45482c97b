"""Kernel programs as text: for people, dumps and goldens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.rename import in_users_names

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


def _block(body: Sequence[k.Stmt], indent: str) -> Iterator[str]:
    for stmt in body:
        yield from _statement(stmt, indent)


def _statement(stmt: k.Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case k.For(var, body, loop, limit, at_once):
            until = f" while {var.name} < {limit}" if limit is not None else ""
            by = f" by {at_once}" if loop is k.Loop.SERIAL and at_once != k.TOGETHER else ""
            yield f"{indent}for {var.name} in 0..{var.extent - 1} {loop.value}{by}{until}:"
            yield from _block(body, indent + "  ")
        case k.GridLoop(blocks, body, backwards, group):
            meeting = f", {group} blocks together" if group > 1 else ""
            order = f"{blocks - 1}..0" if backwards else f"0..{blocks - 1}"
            yield f"{indent}for {k.BLOCK} in {order} over the grid{meeting}:"
            yield from _block(body, indent + "  ")
        case k.Attention(shape, tiling):
            form = "x".join(map(str, (shape.queries, shape.keys, shape.depth, shape.width)))
            yield f"{indent}{stmt.out} = attention {form} of {stmt.q}, {stmt.k}, {stmt.v} by {tiling.query_warps}x" \
                  f"{tiling.key_warps} warps of {tiling.warp_keys} keys:"
            yield f"{indent}  {stmt.score} at {', '.join(v.name for v in stmt.position)}:"
            yield from _block(stmt.body, indent + "    ")
        case k.If(condition, body, orelse):
            yield f"{indent}if {format_expr(condition)}:"
            yield from _block(body, indent + "  ")
            if orelse:
                yield f"{indent}else:"
                yield from _block(orelse, indent + "  ")
        case k.Let() | k.Accumulator() | k.Array():
            yield indent + _simple(stmt) + _note(stmt.note)
        case _:
            yield indent + _simple(stmt)


def _simple(stmt: k.Stmt) -> str:
    match stmt:
        case k.Let(name, value):
            return f"let {name}: {value.dtype.value} = {format_expr(value)}"
        case k.LetIndex(var, source, limit):
            text = str(source) if isinstance(source, Index) else format_expr(source)
            return f"let {var.name}: index = clamp({text}, 0, {limit})"
        case k.Accumulator(name, dtype, init):
            return f"var {name}: {dtype.value} = {init}"
        case k.Update(name, combine, value):
            return f"{name} = {combine.value}({name}, {format_expr(value)})"
        case k.Assign(name, value):
            return f"{name} = {format_expr(value)}"
        case k.ArgUpdate(best, at, kind, value, index):
            return f"({best}, {at}) = {kind.value}(({best}, {at}), ({format_expr(value)}, {index}))"
        case k.Array(name, dtype, size, space, init, offset, carried, received):
            place = (f" at {offset}" if offset is not None else "") + " carried" * carried + " received" * received
            return f"{space.value} {name}: {dtype.value}[{size}]{place}" + (f" = {init}" if init is not None else "")
        case k.SetElement(array, index, value, combine):
            text = format_expr(value)
            return f"{array}[{index}] = " + (f"{combine.value}({array}[{index}], {text})" if combine else text)
        case k.Store(buffer, index, value):
            return f"{buffer}[{index}] = {format_expr(value)}"
        case k.LoadVector(array, at, buffer, index, width):
            return f"{array}[{at}:+{width}] = {buffer}[{index}:+{width}]"
        case k.LoadFence(names):
            return f"loaded: {', '.join(names)}"
        case k.StoreVector(buffer, index, array, width):
            return f"{buffer}[{index}:+{width}] = {array}[0:+{width}]"
        case k.AllReduce(members, width):
            return f"all_reduce over {width} threads: " + ", ".join(f"{kind.value} {name}" for name, kind in members)
        case k.ArgAllReduce(best, at, kind, width):
            return f"all_reduce over {width} threads: {kind.value} ({best}, {at})"
        case k.AsyncCopy(array, at, buffer, index, width, inside):
            where = f" if {format_expr(inside)}" if inside is not None else ""
            return f"fetch {array}[{at}:+{width}] = {buffer}[{index}:+{width}]{where}"
        case k.AwaitAsyncCopies(pending):
            return f"await all fetches but {pending}"
        case k.Prefetch(buffer, index, count):
            return f"prefetch {buffer}[{index}:+{count}]"
        case k.Barrier():
            return "barrier"
        case k.GridBarrier():
            return "grid barrier"
        case k.GroupBarrier():
            return "group barrier"
        case k.Send(array, index, value, block):
            return f"{array}[{index}] of block {block} of the cluster = {format_expr(value)}"
        case k.ClusterStarted():
            return "cluster started"
        case k.ClusterBarrier():
            return "cluster barrier"
        case k.Fail(unless):
            return f"fail unless {format_expr(unless)}"
        case k.Comment():
            return f"// {_one_line(stmt.line)}"
        case _:
            raise TypeError(f"{type(stmt).__name__} has no text")


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
