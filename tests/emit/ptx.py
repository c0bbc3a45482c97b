"""PTX of a graph's CUDA kernels: what NVRTC made of them, with the options they are built with."""

from __future__ import annotations

from cupy_backends.cuda.libs import nvrtc

from tests.differential.runner import H200, compiled
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.runtime.nvrtc_builder import OPTIONS


def ptx_of(graph: TensorGraph) -> str:
    """For an H200."""
    return ptx_of_source(compiled(graph, H200).source)


def ptx_of_source(source: str) -> str:
    """PTX of CUDA C++."""
    program = nvrtc.createProgram(source, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, ["-arch=compute_90", *(o for o in OPTIONS if "ptxas" not in o)])
        return str(nvrtc.getPTX(program).decode())
    finally:
        nvrtc.destroyProgram(program)
