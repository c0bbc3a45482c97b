"""The list of libraries. The place of one is its calls' code in executables; a Target names those that it has.

Another library is a module beside gemm.py (its record, its calls, which nodes they compute), the C++ file that defines
`MakeCall` for its record (as native/op/gemm.cc; native/build.py lists it), a test of both, and its name here and in its
targets; then
`python -m tf_stitch.native.executable_header`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.libraries.attention import ATTENTION
from tf_stitch.libraries.call import Library, LibraryCall
from tf_stitch.libraries.cudnn import CUDNN
from tf_stitch.libraries.float8 import FLOAT8
from tf_stitch.libraries.gemm import GEMM

LIBRARIES: tuple[Library, ...] = (GEMM, CUDNN, ATTENTION, FLOAT8)


def library_of(root: Node, libraries: Sequence[Library]) -> Library | None:
    """The first of these libraries that can compute a node; None if kernels alone can."""
    for library in libraries:
        if library.is_root(root):
            return library
    return None


def code_of(call: LibraryCall) -> int:
    """The code of a call in an executable."""
    return next(code for code, library in enumerate(LIBRARIES) if library.record is call.record)
