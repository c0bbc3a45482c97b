"""CUDA C++ of matmul kernels: what calls the templates in matmul.cu, matmul_warpgroups.cu and matmul_clusters.cu."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from tf_stitch.emit.c_family import Lines
from tf_stitch.emit.cuda_kernel import CudaKernel
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.matmul import MatmulOperand, MatmulShape, MatmulTiling, line_words
from tf_stitch.kernel_ir.walk import accesses

TEMPLATE, WARPGROUPS, CLUSTERS = "tfs_matmul", "tfs_matmul_warpgroups", "tfs_matmul_clusters"
"""The structs of the templates; the second where warpgroups multiply, which needs sm_90a, the third if in pairs."""
_ELEMENT = {DType.F32: "tfs_tf32", DType.F16: "tfs_f16", DType.BF16: "tfs_bf16"}
_WGMMA = {"tfs_f16": "f16", "tfs_bf16": "bf16"}


def template_of(tiling: MatmulTiling) -> str:
    """The struct that runs a matmul."""
    return CLUSTERS if tiling.pair else WARPGROUPS if tiling.warpgroups else TEMPLATE


def needs_own_architecture(text: str) -> bool:
    """Whether a source has instructions of one architecture alone (sm_90a)."""
    return WARPGROUPS in text


def matmul_template(alone: bool, text: str) -> str:
    """What kernels with matmuls need besides the prelude.

    Args:
        alone: no kernel with attention is beside them, which needs the same of tensor cores.
        text: of the kernels.
    """
    folder = resources.files("tf_stitch.emit")
    parts = [(folder / name).read_text() for name in (*(["attention_ptx.cu"] if alone else []), "matmul_tiles.cu")]
    if f"{TEMPLATE}<" in text:
        parts.append((folder / "matmul.cu").read_text())
    if WARPGROUPS in text or CLUSTERS in text:
        parts.append((folder / "warpgroup_ptx.cu").read_text())
        parts += [_multiply(element, int(columns)) for element, columns in sorted(set(re.findall(_NEEDED, text)))]
        parts.append((folder / "matmul_warpgroups.cu").read_text())
    if CLUSTERS in text:
        parts += [(folder / name).read_text() for name in ("tensor_maps_ptx.cu", "matmul_clusters.cu")]
    return "\n".join(parts)


_NEEDED = r"using Multiply = tfs_warpgroup_multiply<(\w+), (\d+)>"


def _multiply(element: str, columns: int) -> str:
    """c += a b, [64, 16] x [16, columns], by a warpgroup. A thread has pairs of neighbouring columns, of two rows."""
    count, ptx = columns // 2, _WGMMA[element]
    results = ", ".join(f"%{i}" for i in range(count))
    return "\n".join([
        "#ifndef TFS_WITHOUT_PTX",
        f"template <> struct tfs_warpgroup_multiply<{element}, {columns}> {{",
        "  template <int A_BY_TERMS, int B_BY_TERMS>",
        f"  static __device__ __forceinline__ void run(float (&c)[{count}], tfs_shared_matrix a, "
        "tfs_shared_matrix b) {",
        '    asm volatile("{ .reg .pred add; setp.ne.b32 add, 1, 0; "',
        f'        "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{ptx}.{ptx} "',
        f'        "{{{results}}}, %{count}, %{count + 1}, add, 1, 1, %{count + 2}, %{count + 3}; }}"',
        "        : " + ", ".join(f'"+f"(c[{i}])' for i in range(count)),
        '        : "l"(a.descriptor), "l"(b.descriptor), "n"(A_BY_TERMS), "n"(B_BY_TERMS));',
        "  }",
        "};",
        "#endif"])


@CudaKernel.rules(k.Matmul)
def _matmul(kernel: CudaKernel, stmt: k.Matmul) -> Lines:
    barrier = kernel.barrier_type(stmt.barrier)
    yield "{"
    constants = matmul_constants("Constants", stmt.shape, stmt.tiling, barrier, stmt.ahead)
    yield from (f"  {line}" for line in constants)
    buffers, loads = [], []
    for of in stmt.operands:
        if of.its.place is None:
            load = f"load_{of.name}"
            values = f"float (&{stmt.values})[{of.its.vector}]"
            yield from kernel.closure(load, [values], of.place, of.load)
            buffers.append("nullptr")
            loads.append(load)
        else:
            buffers.append(f"{of.buffer} + {of.its.place.offset}")
            loads.append("0")
    yield from _finish_function(kernel, stmt)
    if stmt.tiling.pair:
        loads = [f"(tfs_tensor_map*){stmt.maps}"]
    given = ["thread", "(int)block", *buffers, f"(uint32_t*){stmt.tiles}", *loads, "finish"]
    yield f"  {template_of(stmt.tiling)}<Constants>::run({', '.join(given)});"
    yield "}"


def _finish_function(kernel: CudaKernel, stmt: k.Matmul) -> Lines:
    """A function that computes what becomes of results, and returns one that stores it: nothing that a caller loads for
    other results has to wait for stores."""
    stores = next((i for i, s in enumerate(stmt.finish) if any(a.write for a in accesses([s]))), 0)
    position = ", ".join(f"{kernel.index_type} {v.name}" for v in stmt.place)
    yield f"  const auto finish = [&](float (&{stmt.results})[{stmt.shape.finished}], {position}) {{"
    yield from (f"  {line}" for line in kernel.block(stmt.finish[:stores]))
    yield "    return [=]() mutable {"
    yield from (f"    {line}" for line in kernel.block(stmt.finish[stores:]))
    yield "    };"
    yield "  };"


@CudaKernel.rules(k.MatmulPrefetch)
def _matmul_prefetch(kernel: CudaKernel, stmt: k.MatmulPrefetch) -> Lines:
    assert stmt.shape.b.place is not None
    yield "{"
    constants = matmul_constants("Constants", stmt.shape, stmt.tiling, kernel.barrier_type(k.WHOLE_BLOCK), True)
    yield from (f"  {line}" for line in constants)
    b = f"{stmt.b}{'_' * kernel.early} + {stmt.shape.b.place.offset}"
    yield f"  {template_of(stmt.tiling)}<Constants>::prefetch(thread, (int)block, {b}, (uint32_t*){stmt.tiles});"
    yield "}"


def matmul_constants(name: str, shape: MatmulShape, tiling: MatmulTiling, barrier: str, ahead: bool) -> Iterator[str]:
    """The struct that the template takes, as lines.

    Args:
        ahead: b's first stages are on their way when it runs.
        barrier: type of the one that all threads wait at.
    """
    numbers = {"MATRICES": shape.matrices, "M": shape.m, "N": shape.n, "K": shape.k,
               "ROWS": tiling.rows, "COLUMNS": tiling.columns, "WORDS": tiling.words,
               "ROW_WARPS": tiling.row_warps, "COLUMN_WARPS": tiling.column_warps, "PARTS": tiling.parts,
               "SHARERS": tiling.sharers, "STAGES": tiling.stages, "AHEAD": ahead, "VECTOR": shape.vector,
               "GATES": shape.gates}
    if tiling.pair:
        numbers |= {"ROWS_SHARED": tiling.pair == "a", "BLOCKS": tiling.blocks(shape)}
    operands = {"A": _operand(shape.a, shape.m, tiling.rows, 1, shape, tiling),
                "B": _operand(shape.b, shape.n, tiling.columns, shape.gates, shape, tiling)}
    yield f"struct {name} {{"
    yield f"  using Element = {_ELEMENT[shape.dtype]};"
    yield f"  using Barrier = {barrier};"
    if tiling.warpgroups:
        yield f"  using Multiply = tfs_warpgroup_multiply<{_ELEMENT[shape.dtype]}, {tiling.columns}>;"
    yield f"  enum : int {{ {_listed(numbers)} }};"
    for operand, its_numbers in operands.items():
        yield f"  struct {operand} {{"
        yield f"    enum : int {{ {_listed(its_numbers)} }};"
        yield "  };"
    yield "};"


def _operand(operand: MatmulOperand, whole: int, extent: int, gates: int, shape: MatmulShape, tiling: MatmulTiling
             ) -> dict[str, int]:
    place = operand.place
    return {"EXTENT": extent, "WHOLE": whole, "GATES": gates,
            "ALONG_TERMS": operand.along_terms, "VECTOR": operand.vector,
            "LINE": line_words(extent, operand.along_terms, shape.dtype, tiling), "PLAIN": place is not None,
            "MATRIX_STEP": place.matrix if place else 0, "LINE_STEP": place.line if place else 0}


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{key} = {int(value)}" for key, value in numbers.items())
