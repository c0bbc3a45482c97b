"""Where regions may hold library calls."""

from __future__ import annotations

from collections.abc import Collection

from tf_stitch.integration.report import Report
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.runtime.device_query import cublas_lt_files

SCOPES = {"ops": frozenset[str](), "auto": frozenset({"GPU"}), "region": frozenset({"CPU", "GPU"})}
"""TF_STITCH_SCOPE -> device types whose regions may hold library calls."""


class Libraries:
    """Decides by TF_STITCH_SCOPE and by what this process can load.

    Args:
        scope: "ops", "region", or "auto": region on GPUs, where it measured faster, ops on CPUs.
        native: the op library; None: regions run in Python, and hold no library calls.
    """

    def __init__(self, scope: str, native: OpLibrary | None, report: Report) -> None:
        self._devices = SCOPES[scope] if native is not None else frozenset()
        self._native, self._report = native, report
        self._asked = False

    def devices(self, graph_device: str) -> Collection[str]:
        """Device types whose matrix products regions take. cuBLASLt is looked for with the first graph on a GPU."""
        if graph_device == "GPU" and "GPU" in self._devices and not self._asked and self._native is not None:
            self._asked = True
            missing = self._native.load_cublas_lt(cublas_lt_files())
            if missing:
                self._devices -= {"GPU"}
                self._report.fallback("library", "matrix products", f"{missing}: regions hold none")
        return self._devices
