"""What each wheel of TensorFlow exports to a library like the native op: writes tools/exported_symbols.txt.xz.

    python -m tools.exported_symbols                                  # every wheel below, one after the other
    python -m tools.exported_symbols tensorflow==2.22.0               # adds one, and leaves the others as they are

Downloads each wheel (up to 600 MB), reads the one library that the native op links, and removes the wheel again.
The test of the native libraries reads the file: tests/tools/test_exported_symbols.py.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from absl import app

WHEELS = tuple(f"{name}=={version}" for version in ("2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
               for name in ("tensorflow", "tensorflow-cpu"))
"""The last release of each minor version."""
FILE = Path(__file__).with_suffix(".txt.xz")
LIBRARY = "tensorflow/libtensorflow_framework.so.2"
_RUNTIME = re.compile(r"_Z(N?K?St|T[ISV]N?St)|_ITM_|__gmon_start__")
"""Of the C++ library, which TensorFlow's own may define again, and of the compiler."""
_LTS = re.compile(r"lts_\d{8}")
_OURS = re.compile(r"TFE?_|TSL_|SE_|_Z.*(10tensorflow|3tsl|4absl|6google8protobuf|15stream_executor)")
"""What the native op could need. The rest is LLVM, MLIR, oneDNN and other libraries of TensorFlow's own."""
_OTHERS = re.compile(r"4mlir|4llvm|4dnnl|3xla|4grpc|9grpc_core|5Eigen")

Exports = Mapping[str, frozenset[str]]
"""The symbols by wheel."""


def defined_symbols(library: Path) -> frozenset[str]:
    """Names of the dynamic symbols that a library defines, without versions.

    Raises:
        subprocess.CalledProcessError: it is no shared library.
    """
    return frozenset(line.split()[-1].partition("@")[0] for line in _nm(library, "--defined-only"))


def undefined_symbols(library: Path) -> frozenset[str]:
    """Names of the dynamic symbols that TensorFlow has to define: without weak ones, and without those of the system's
    libraries, which carry a version.

    Raises:
        subprocess.CalledProcessError: it is no shared library.
    """
    fields = [line.split() for line in _nm(library, "--undefined-only")]
    return frozenset(name for kind, name in (field[-2:] for field in fields)
                     if kind == "U" and "@" not in name and not _RUNTIME.match(name))


def missing_symbols(wanted: Iterable[str], exported: Iterable[str], any_absl: bool = False) -> list[str]:
    """Those of `wanted` that are not in `exported`, in order.

    Args:
        any_absl: they may differ in the release of absl, which is part of the names of its symbols.
    """
    there = {_without_lts(name) for name in exported} if any_absl else set(exported)
    return sorted(name for name in wanted if (_without_lts(name) if any_absl else name) not in there)


def _without_lts(name: str) -> str:
    return _LTS.sub("lts", name)


def read_exports(file: Path = FILE) -> dict[str, frozenset[str]]:
    """What `write_exports` wrote."""
    header, *lines = lzma.decompress(file.read_bytes()).decode().splitlines()
    wheels = header.split()
    exports: dict[str, set[str]] = {wheel: set() for wheel in wheels}
    for line in lines:
        mask, _, name = line.partition(" ")
        for place, wheel in enumerate(wheels):
            if int(mask, 16) >> place & 1:
                exports[wheel].add(name)
    return {wheel: frozenset(names) for wheel, names in exports.items()}


def write_exports(exports: Exports, file: Path = FILE) -> None:
    """Writes a line for each symbol: the wheels that have it, as bits in hexadecimal, and its name. The first line
    names the wheels, the lowest bit first."""
    masks: dict[str, int] = {}
    for place, names in enumerate(exports.values()):
        for name in names:
            masks[name] = masks.get(name, 0) | 1 << place
    lines = [" ".join(exports), *(f"{mask:x} {name}" for name, mask in sorted(masks.items()))]
    file.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def exported_by(wheel: str) -> frozenset[str]:
    """Downloads a wheel for this Python; the symbols of its library that the native op could need.

    Raises:
        subprocess.CalledProcessError: pip does not find it.
        KeyError: it holds no such library.
    """
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
               "--only-binary=:all:", "--dest", folder]
        subprocess.run([*pip, wheel], check=True)
        [file] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            library = Path(archive.extract(LIBRARY, folder))
        return frozenset(name for name in defined_symbols(library) if _OURS.match(name) and not _OTHERS.search(name))


def _nm(library: Path, which: str) -> Iterable[str]:
    return subprocess.run(["nm", "-D", which, str(library)], capture_output=True, text=True, check=True
                          ).stdout.splitlines()


def main(argv: Sequence[str]) -> None:
    """Writes the file again after each wheel, so that one that fails does not lose the others."""
    exports = read_exports() if FILE.exists() else {}
    for wheel in argv[1:] or WHEELS:
        exports[wheel] = exported_by(wheel)
        write_exports(exports)
        print(f"{wheel}: {len(exports[wheel])} symbols; {FILE.name} has {FILE.stat().st_size >> 10} KiB", flush=True)


if __name__ == "__main__":
    app.run(main)
