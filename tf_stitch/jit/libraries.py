"""Where regions may hold which library calls."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from tf_stitch.frontend.tensorflow.matmul_scope import NO_MATMULS, Matmuls, Scope
from tf_stitch.libraries.call import LibraryCall
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.placement.executable import ALIGNMENT, BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space
from tf_stitch.report.report import Report
from tf_stitch.runtime.device_query import cublas_lt_files, cudnn_files, nccl_files
from tf_stitch.targets import registry as targets

SCOPES: dict[str, Scope] = {
    "ops": NO_MATMULS,
    "auto": {"CPU": Matmuls.SMALL, "GPU": Matmuls.ALL},
    "region": {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL},
}
"""TF_STITCH_SCOPE -> device types whose regions may hold library calls, and which."""
FUSED_ATTENTION = 91600
"""cuDNN's version from which gradients of attentions take any number of keys; 9.10.0 and 9.10.1 have wrong ones."""
CONVOLUTIONS = "convolution"
"""The name of the library that has them."""


def scope_of(name: str, convolutions: bool = False) -> Scope:
    """What a scope means, without devices whose target has no library.

    Args:
        convolutions: whether regions that hold all matmuls hold convolutions, too, where the target has them.
    """
    have = {target.device_type: {library.name for library in target.libraries}
            for target in targets.TARGETS if target.libraries}
    scope = {device: taken for device, taken in SCOPES[name].items() if device in have}
    if convolutions:
        scope |= {device: Matmuls.ALL_AND_CONVOLUTIONS for device, taken in scope.items()
                  if taken is Matmuls.ALL and CONVOLUTIONS in have[device]}
    return scope


class OptionalCalls(Protocol):
    """What is known of libraries whose calls regions can do without."""

    @property
    def has_fused_attention(self) -> bool:
        """Whether one that has fused kernels of attentions may be called on GPUs."""

    def refusal(self, device: int, call: LibraryCall) -> str:
        """Why there is no kernel for a call on a GPU of that ordinal; "" if there is."""


class NoOptionalCalls:
    """There are no such libraries."""

    has_fused_attention = False

    def refusal(self, device: int, call: LibraryCall) -> str:
        return "no library"


class Libraries:
    """Decides by TF_STITCH_SCOPE and by what this process can load.

    Args:
        scope: "ops", "region", or "auto": all matmuls on GPUs and small ones on CPUs, where they measured faster.
        native: the op library; None: regions run in Python, and hold no library calls.
    """

    def __init__(self, scope: str, native: OpLibrary | None, report: Report) -> None:
        self._scope = scope
        self._devices = scope_of(scope) if native is not None else NO_MATMULS
        self._native, self._report = native, report
        self._asked = False
        self._refusals: dict[tuple[int, LibraryCall], str] = {}

    def devices(self, graph_device: str, convolutions: bool = False) -> Scope:
        """Which matmuls regions take, and whether they take convolutions. cuBLASLt is looked for with the first graph
        on a GPU, cuDNN with the first one that has convolutions.

        Args:
            convolutions: whether the graph has any.
        """
        if graph_device == "GPU" and "GPU" in self._devices and not self._asked and self._native is not None:
            self._asked = True
            missing = self._native.load_cublas_lt(cublas_lt_files())
            if missing:
                self._devices = {device: taken for device, taken in self._devices.items() if device != "GPU"}
                self._report.fallback("library", "matmuls", f"{missing}: regions hold none")
        if convolutions and graph_device == "GPU" and "GPU" in self._devices and self._has_cudnn:
            return scope_of(self._scope, convolutions=True)
        return self._devices

    @cached_property
    def has_fused_attention(self) -> bool:
        """Whether calls of a library may compute attentions and their gradients on GPUs where regions hold all
        matmuls. Without it kernels of ours do, which a remark of the report says."""
        if self._native is None or self._devices.get("GPU") not in (Matmuls.ALL, Matmuls.ALL_AND_CONVOLUTIONS):
            return False
        missing = self._native.load_cudnn(cudnn_files())
        version = 0 if missing else self._native.cudnn_version()
        if version < FUSED_ATTENTION:
            missing = missing or f"cuDNN {version} is older than {FUSED_ATTENTION}"
            self._report.remark("library", "attentions", f"{missing}: kernels of ours compute them")
        return version >= FUSED_ATTENTION

    def refusal(self, device: int, call: LibraryCall) -> str:
        """Why the library of a call has no kernel for it on a GPU of that ordinal; "" if it has, which is made. Asked
        of each once; by several threads perhaps."""
        known = self._refusals.get((device, call))
        if known is None:
            assert self._native is not None, "who may call a library has one"
            known = self._refusals[device, call] = self._native.try_calls(device, words_of(call))
        return known

    @cached_property
    def has_nccl(self) -> bool:
        """Whether sums over GPUs may be work in their streams; says why not."""
        if self._native is None:
            return False
        missing = self._native.load_nccl(nccl_files())
        if missing:
            self._report.fallback("library", "sums over GPUs", f"{missing}: they stay TensorFlow's collectives")
        return not missing

    @cached_property
    def _has_cudnn(self) -> bool:
        """Asked for the first time, says why not."""
        wanted = scope_of(self._scope, convolutions=True).get("GPU") is Matmuls.ALL_AND_CONVOLUTIONS
        if not wanted or self._native is None:
            return False
        missing = self._native.load_cudnn(cudnn_files())
        if missing:
            self._report.fallback("library", "convolutions", f"{missing}: regions hold none")
        return not missing


def words_of(call: LibraryCall) -> list[int]:
    """Words of an executable of one call, whose operands lie in scratch memory."""
    places, end = list[int](), 0
    for nbytes in call.operand_bytes():
        places.append(end)
        end += -(-nbytes // ALIGNMENT) * ALIGNMENT
    step = LibraryStep(call, tuple(BufferRef(Space.ARENA, place) for place in places))
    return encode(Executable((), (), (), (), (end,), (step,), None), {})
