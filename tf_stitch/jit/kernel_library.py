"""Kernels that are built: those that serve many shapes are found again by their symbols."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from tf_stitch.atomic_file import read_verified
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Rendered
from tf_stitch.placement.executable import DeviceLaunch, Executable, HostLaunch, encode
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.unit_builds import build_units
from tf_stitch.targets.registry import target_of

Rendering = Mapping[str, Rendered]


class Image:
    """A binary in memory, at an address, of so many bytes."""

    def __init__(self, data: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(data, len(data) + 1)
        self.address, self.size = ctypes.addressof(self._buffer), len(data)


Images = tuple[Image, ...]


class KernelLibrary:
    """Built kernels of this process by device and symbol. Thread-safe; two threads may build one kernel twice."""

    def __init__(self, cache: KernelCache) -> None:
        self._cache = cache
        self._binaries: dict[tuple[str, str, str], Path] = {}
        self._images: WeakValueDictionary[Path, Image] = WeakValueDictionary()
        self._keep: list[Any] = []  # symbol names that the native op points to
        self._names: dict[str, int] = {}
        self._lock = threading.Lock()

    def missing(self, kernels: Rendering, device: DeviceSpec) -> dict[str, Rendered]:
        """Those that are not built."""
        with self._lock:
            return {s: kernel for s, kernel in kernels.items() if _key(device, s) not in self._binaries}

    def build(self, kernels: Rendering, device: DeviceSpec) -> None:
        """Builds them.

        Raises:
            BuildError: no compiler, or its message.
        """
        binaries = self.build_own(kernels.values(), device)
        with self._lock:
            self._binaries.update({_key(device, symbol): binary for symbol, binary in binaries.items()})

    def build_own(self, kernels: Collection[Rendered], device: DeviceSpec) -> dict[str, Path]:
        """The binary that has each symbol, which only those who ask know.

        Raises:
            BuildError: as `build`.
        """
        target, cache = target_of(device), self._cache

        def build(unit: Sequence[Rendered]) -> Path:
            return target.build(target.emission.source(unit), device.architecture, cache)

        return build_units(kernels, target.emission.unit, build)

    def resources(self, symbols: Iterable[str], device: DeviceSpec) -> dict[str, KernelResources]:
        """What launches that were built here take; nothing on a CPU."""
        with self._lock:
            binaries = {self._binaries[_key(device, symbol)] for symbol in symbols}
        of = target_of(device).resources
        found = {symbol: taken for binary in binaries for symbol, taken in of(binary).items()}
        return {symbol: found[symbol] for symbol in symbols if symbol in found}

    def host(self, executable: Executable, device: DeviceSpec) -> HostExecutable:
        """A CPU executable with its kernels loaded."""
        symbols = {s.symbol for s in executable.steps if isinstance(s, HostLaunch)}
        return HostExecutable(executable, *sorted({self._binaries[_key(device, s)] for s in symbols}))

    def device_words(self, executable: Executable, device: DeviceSpec) -> tuple[list[int], Images]:
        """A GPU executable for the native op, of kernels that were built here, and what has to live as long."""
        with self._lock:
            cubins = {s: self._binaries[_key(device, s)] for s in _symbols(executable)}
        return self._words(executable, cubins)

    def words_of(self, executable: Executable, cubins: Mapping[str, Path]) -> tuple[list[int], Images]:
        """A GPU executable for the native op, the cubins of whose kernels are known, and what has to live as long."""
        return self._words(executable, {symbol: cubins[symbol] for symbol in _symbols(executable)})

    def _words(self, executable: Executable, cubins: Mapping[str, Path]) -> tuple[list[int], Images]:
        """Words with addresses of images, and of names, which stay in memory."""
        symbols: dict[Image, list[str]] = {}
        with self._lock:
            for symbol, cubin in cubins.items():
                self._name(symbol)
                symbols.setdefault(self._image(cubin), []).append(symbol)
            places = {(image.address, image.size): names for image, names in symbols.items()}
            return encode(executable, self._names, places), tuple(symbols)

    def _image(self, cubin: Path) -> Image:
        image = self._images.get(cubin)
        if image is None:
            image = self._images[cubin] = Image(read_verified(cubin))
        return image

    def _name(self, symbol: str) -> None:
        if symbol not in self._names:
            self._keep.append(ctypes.create_string_buffer(symbol.encode()))
            self._names[symbol] = ctypes.addressof(self._keep[-1])


def _symbols(executable: Executable) -> list[str]:
    return list(dict.fromkeys(s.symbol for s in executable.steps if isinstance(s, DeviceLaunch)))


def _key(device: DeviceSpec, symbol: str) -> tuple[str, str, str]:
    return device.target, device.architecture, symbol
