"""Where regions may hold which library calls."""

from __future__ import annotations

from tf_stitch.frontend.tensorflow.matmul_scope import NO_MATMULS, Matmuls, Scope
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.report.report import Report
from tf_stitch.runtime.device_query import cublas_lt_files
from tf_stitch.targets import registry as targets

SCOPES: dict[str, Scope] = {
    "ops": NO_MATMULS,
    "auto": {"CPU": Matmuls.SMALL, "GPU": Matmuls.ALL},
    "region": {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL},
}
"""TF_STITCH_SCOPE -> device types whose regions may hold library calls, and which."""


def scope_of(name: str) -> Scope:
    """What a scope means, without devices whose target has no library."""
    have = {target.device_type for target in targets.TARGETS if target.libraries}
    return {device: taken for device, taken in SCOPES[name].items() if device in have}


class Libraries:
    """Decides by TF_STITCH_SCOPE and by what this process can load.

    Args:
        scope: "ops", "region", or "auto": all matmuls on GPUs and small ones on CPUs, where they measured faster.
        native: the op library; None: regions run in Python, and hold no library calls.
    """

    def __init__(self, scope: str, native: OpLibrary | None, report: Report) -> None:
        self._devices = scope_of(scope) if native is not None else NO_MATMULS
        self._native, self._report = native, report
        self._asked = False

    def devices(self, graph_device: str) -> Scope:
        """Which matmuls regions take. cuBLASLt is looked for with the first graph on a GPU."""
        if graph_device == "GPU" and "GPU" in self._devices and not self._asked and self._native is not None:
            self._asked = True
            missing = self._native.load_cublas_lt(cublas_lt_files())
            if missing:
                self._devices = {device: taken for device, taken in self._devices.items() if device != "GPU"}
                self._report.fallback("library", "matmuls", f"{missing}: regions hold none")
        return self._devices
