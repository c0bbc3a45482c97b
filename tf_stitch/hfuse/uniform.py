"""Whether all threads of a block take the same way: then all of them return, or none does."""

from __future__ import annotations

from tf_stitch.hfuse.source import Cursor, Kernel, end, in_text, start, walk

_CONDITIONAL = {"IF_STMT", "FOR_STMT", "WHILE_STMT", "DO_STMT", "SWITCH_STMT", "CXX_FOR_RANGE_STMT", "CASE_STMT",
                "DEFAULT_STMT", "LABEL_STMT"}
_OF_THE_BLOCK = {"blockIdx", "gridDim", "blockDim", "warpSize"}
_PLAIN = {"BINARY_OPERATOR", "UNARY_OPERATOR", "PAREN_EXPR", "UNEXPOSED_EXPR", "INTEGER_LITERAL", "FLOATING_LITERAL",
          "CXX_BOOL_LITERAL_EXPR", "CHARACTER_LITERAL", "MEMBER_REF_EXPR", "DECL_REF_EXPR", "CSTYLE_CAST_EXPR",
          "CXX_STATIC_CAST_EXPR", "CXX_FUNCTIONAL_CAST_EXPR", "CXX_UNARY_EXPR", "CONDITIONAL_OPERATOR", "TYPE_REF",
          "CUDADEVICE_ATTR"}


def is_uniform(statement: Cursor, above: tuple[Cursor, ...], kernel: Kernel) -> bool:
    """Whether a statement of the kernel is reached by all threads of a block or by none: it stands in nothing but ifs
    whose conditions are the same for them all."""
    if any(c.kind.name in ("GOTO_STMT", "INDIRECT_GOTO_STMT") for c, _ in walk(kernel.body)):
        return False
    holders = [c for c in above if c.kind.name in _CONDITIONAL]
    return all(holder.kind.name == "IF_STMT" and _same_for_all(next(iter(holder.get_children())), kernel)
               for holder in holders)


def _same_for_all(expression: Cursor, kernel: Kernel) -> bool:
    """Of literals, parameters and constants that nothing writes, and numbers of the block, by arithmetic alone."""
    for cursor, _ in walk(expression):
        if cursor.kind.name not in _PLAIN:
            return False
        if cursor.kind.name == "DECL_REF_EXPR" and not _constant(cursor, kernel):
            return False
        if cursor.kind.name == "UNARY_OPERATOR" and _changes(cursor):
            return False
        if cursor.kind.name == "MEMBER_REF_EXPR" and any(c.type.kind.name == "POINTER" for c in cursor.get_children()):
            return False  # memory
    return True


def _changes(cursor: Cursor) -> bool:
    """Whether a unary operator writes, or reads memory: anything but - + ! ~."""
    return next(iter(cursor.get_tokens())).spelling not in ("-", "+", "!", "~")


def _constant(reference: Cursor, kernel: Kernel) -> bool:
    variable = reference.referenced
    if variable is None:
        return False
    if not in_text(variable):
        return variable.spelling in _OF_THE_BLOCK
    if variable.kind.name in ("ENUM_CONSTANT_DECL", "TEMPLATE_NON_TYPE_PARAMETER"):
        return True
    if variable.kind.name == "PARM_DECL":
        own = start(kernel.cursor) <= start(variable) and end(variable) <= end(kernel.cursor)
        return own and (variable.type.is_const_qualified() or not _written(variable, kernel))
    if variable.kind.name != "VAR_DECL" or not variable.type.is_const_qualified():
        return False
    value = [c for c in variable.get_children() if c.kind.is_expression()]
    return bool(value) and _same_for_all(value[-1], kernel)


def _written(variable: Cursor, kernel: Kernel) -> bool:
    """Whether it is used as anything but a value. libclang puts a conversion between a variable and what reads it."""
    return any(cursor.kind.name == "DECL_REF_EXPR" and cursor.referenced == variable
               and not (above and above[-1].kind.name == "UNEXPOSED_EXPR")
               for cursor, above in walk(kernel.body))
