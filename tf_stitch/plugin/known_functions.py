"""Functions whose kernels processes have built, on disk, with the call at which later processes change over."""

from __future__ import annotations

import contextlib
from functools import cached_property

import tensorflow as tf

from tf_stitch.config import StitchConfig
from tf_stitch.errors import BuildError
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.device_profiles import machine_key
from tf_stitch.runtime.host_builder import kernels_compiler
from tf_stitch.runtime.kernel_cache import KernelCache

_SUFFIX = ".built"


class KnownFunctions:
    """Numbers of calls by keys of functions. Threads and processes may share the folder.

    Args:
        config: what kernels depend on beside the function.
        cache: whose `problem` says why keys are not kept.
    """

    def __init__(self, config: StitchConfig, cache: KernelCache) -> None:
        self._config, self._cache = config, cache

    def recall(self, key: str) -> int | None:
        """The first call of a function that kernels compute; None if no process has built them."""
        return self._cache.parsed(self.name(key), _SUFFIX, int)

    def add(self, key: str, call: int) -> None:
        """Keeps the first call that kernels compute in later processes. Where that cannot be done, they begin as this
        one did."""
        with contextlib.suppress(BuildError):  # the cache has noted it
            self._cache.put(self.name(key), _SUFFIX, str(call).encode())

    def name(self, key: str, kind: str = "function", *circumstances: str) -> str:
        """Hex digits for a key, with what kernels depend on beside the function.

        Args:
            kind: of what is kept under this name.
            circumstances: what that depends on further.
        """
        return cache_key(key, kind, self._machine, (self._settings, tf.__version__, *circumstances), self._compiler,
                         package_digest())

    @cached_property
    def _settings(self) -> str:
        config = self._config
        return repr((config.scope, config.unroll, config.loop_op, config.planner, config.matmuls, config.reuse,
                     config.min_region, config.only, config.skip, config.templates, config.hfuse, config.memory))

    @cached_property
    def _machine(self) -> str:
        gpus = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
        return "_".join([machine_key("cpu", 0), *(str(gpu.get("device_name", "")) for gpu in gpus)])

    @cached_property
    def _compiler(self) -> str:
        try:
            return kernels_compiler(self._config.kernels_dir)
        except BuildError:  # it was killed
            return "unknown"
