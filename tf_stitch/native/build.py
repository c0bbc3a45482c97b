"""Builds the native libraries against the installed TensorFlow, once per TensorFlow version and source.

Wheels for one TensorFlow version hold them. Else the first use builds: at install time TensorFlow may not be there,
for pip isolates builds. A file serves the CPU and the GPU wheel of its TensorFlow version, so a cache folder can be
carried to a machine of the same kind without a compiler.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO

from tf_stitch.child_process import end_children, find_program, python_code
from tf_stitch.compiler_run import refuses_the_source, run_compiler
from tf_stitch.config import plain_environment
from tf_stitch.errors import BuildError, NativeError
from tf_stitch.messages import Activity, on_terminal, say
from tf_stitch.native import failed_builds
from tf_stitch.native.failed_builds import LastingError
from tf_stitch.native.instruction_sets import for_this_processor, special_flags
from tf_stitch.private_folder import open_lock
from tf_stitch.runtime.cache_key import ABI_VERSION
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.library_check import check_elf

SOURCE_DIR = Path(__file__).parent
PREBUILT = SOURCE_DIR / "prebuilt"
"""Libraries that came with the wheel (tools/wheel.py); not there in others."""
COMPILERS = ("g++", "c++", "clang++")
COMPILE_SECONDS = 600
"""For one run of the compiler, which then is killed."""
_SUFFIX = ".so"
_OWN_SYMBOLS = "{ local: *9tf_stitch*; };"
"""A linker's version script: a second copy of a library must not get variables or functions of the first one."""
# GCC collects garbage in half as much memory by default, for a twelfth of the time that TensorFlow's headers take.
_FLAGS = ("-O2", "-DNDEBUG", "-fPIC", "-w", "--param=ggc-min-expand=200", "--param=ggc-min-heapsize=524288")


@dataclass(frozen=True)
class Library:
    """A shared library made from sources of this folder.

    Attributes:
        name: the stem of its file name.
        sources: paths below SOURCE_DIR. Those for special processors come last: of a function that several hold, the
            linker takes the first.
        links_tensorflow: resolves TensorFlow's symbols (the op does; the graph hook must not).
        together: sources that are compiled as one: most of the time goes into the headers that they share.
    """

    name: str
    sources: tuple[str, ...]
    links_tensorflow: bool
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def units(self) -> list[tuple[str, ...]]:
        """What the compiler is run for, the longest first."""
        alone = [source for source in self.sources if not any(source in unit for unit in self.together)]
        return [*self.together, *((source,) for source in alone)]

    def here(self) -> Library:
        """The same with what this machine's processor can run: built sooner, and for such processors alone."""
        return replace(self, sources=for_this_processor(self.sources))


_WITH_TENSORFLOW = ("op/stitch_op.cc", "loop/while_op.cc", "loop/goes_on_op.cc", "loop/loop_spec.cc",
                    "op/callers_executor.cc", "op/module_op.cc", "op/upload_op.cc", "op/meeting_op.cc",
                    "op/all_reduce_op.cc", "op/exchange_op.cc", "op/peer_copy_op.cc", "op/given_op.cc",
                    "op/handle_op.cc", "op/first_copy.cc", "cpu/workers.cc")
"""All that read TensorFlow's large headers, which takes seven seconds."""
_RUNTIME = ("op/region_runtime.cc", "op/slot_building.cc", "op/runtime_registry.cc", "op/executable.cc",
            "op/profitability_check.cc", "op/exports.cc", "op/aot_module.cc", "op/loaded_modules.cc",
            "op/converted_regions.cc", "op/module_file.cc", "loop/loop_roles.cc", "op/gemm.cc", "cpu/host_gemm.cc")
_CUDA = ("cuda/cuda_driver.cc", "cuda/gpu_modules.cc", "cuda/gpu_timer.cc", "cuda/cuda_graph.cc", "cuda/graph_nodes.cc",
         "cuda/graph_places.cc", "cuda/call_trial.cc", "cuda/cublas_lt.cc", "cuda/lt_library.cc",
         "cuda/nccl_library.cc")
_CUDNN = ("cuda/cudnn.cc", "cuda/convolution_graph.cc", "cuda/cudnn_library.cc", "cuda/cudnn_handles.cc",
          "cuda/cudnn_plans.cc")
_ATTENTION = ("cuda/cudnn_attention.cc", "cuda/attention_graph.cc")
_TOGETHER = (_WITH_TENSORFLOW, _RUNTIME, _CUDA, _CUDNN, _ATTENTION)
_FOR_PROCESSORS = ("cpu/host_blocks_baseline.cc", "cpu/host_blocks_avx2.cc", "cpu/host_blocks_avx512.cc")
_OLDER_SYMBOLS = "libc/older_symbols.cc"
# Without an import of `libraries`, which takes a tenth of a second. A test compares.
STITCH_OP = Library(
    "stitch_op",
    (*(source for unit in _TOGETHER for source in unit), _OLDER_SYMBOLS, *_FOR_PROCESSORS),
    links_tensorflow=True,
    together=_TOGETHER,
)
GRAPH_HOOK = Library("graph_hook", ("hook/graph_hook.cc", "hook/signal_watch.cc", _OLDER_SYMBOLS),
                     links_tensorflow=False)


def build_library(library: Library, cache_dir: Path, portable: bool = False) -> Path:
    """Returns the library's file, compiled unless `cache_dir`/native has it for this TensorFlow and these sources.

    Args:
        portable: it is to run on other processors, too. Else one that does is as good, where there is one.

    Raises:
        NativeError: no compiler, or it rejected the sources, now or (then in one line) in an earlier process; the
            message says what to do.
    """
    wanted = library if portable else library.here()
    cache = native_cache(cache_dir)
    found = _find((library, wanted), cache)  # perhaps where nothing can be written
    if found is None:
        flags, libraries, key = _recipe(wanted)
        with _locked(cache.folder / f"{library.name}.lock"):
            if (cache.folder / (key + _SUFFIX)).exists():  # who held the lock has built it
                found = cache.get(key, _SUFFIX)
            found = found or _build(wanted, flags, libraries, cache, key)
    if cache.problem:
        _say_once(f"native libraries go to a temporary folder ({cache.problem}); TF_STITCH_CACHE names a lasting one")
    return found


def is_portable(library: Library, file: Path) -> bool:
    """Whether a file that was found or built runs on other processors, too."""
    return file.stem == _recipe(library)[2]


def find_library(library: Library, cache_dir: Path) -> tuple[Path | None, str]:
    """The library's file if it is built; else why it is not, "" where nobody has tried."""
    cache = native_cache(cache_dir)
    found = _find((library, library.here()), cache)
    compiler = find_compiler()
    if found is not None or compiler is None:
        return found, ""
    failed = failed_builds.recall(cache.folder, _recipe(library.here())[2], compiler)
    return None, "" if failed is None else str(failed)


def _find(forms: Iterable[Library], cache: KernelCache) -> Path | None:
    """The first that is there. The cache counts one lookup."""
    keys = [_recipe(form)[2] for form in dict.fromkeys(forms)]
    for key in keys:
        if (found := _prebuilt(key)) is not None:
            return found
    there = [key for key in keys if (cache.folder / (key + _SUFFIX)).exists()]
    return cache.get((there or keys)[0], _SUFFIX)


def _recipe(library: Library) -> tuple[list[str], list[str], str]:
    """The compiler's flags, the linker's, and the name that says all that the library depends on."""
    import tensorflow as tf

    flags = [*_FLAGS, *tf.sysconfig.get_compile_flags()]
    libraries = [*tf.sysconfig.get_link_flags(), "-ldl"] if library.links_tensorflow else ["-ldl"]
    version = tf.version.VERSION
    special = [flag for source in library.sources for flag in special_flags(source)]
    digest = _digest(library, [str(ABI_VERSION), version, tf.version.GIT_VERSION, *flags, *special, *libraries,
                               _OWN_SYMBOLS, sources_digest()])
    return flags, libraries, f"{library.name}-tf{version}-{digest[:16]}"


def _prebuilt(key: str) -> Path | None:
    """What a wheel for this TensorFlow holds."""
    path = PREBUILT / (key + _SUFFIX)
    return path if path.exists() else None


@cache
def native_cache(cache_dir: Path) -> KernelCache:
    """Where native libraries are kept."""
    return KernelCache(cache_dir.expanduser() / "native")


def _build(library: Library, flags: list[str], libraries: list[str], cache: KernelCache, key: str) -> Path:
    compiler = find_compiler()
    if compiler is None:
        raise NativeError(f"no C++ compiler ({', '.join(COMPILERS)}) to build {library.name}: install g++, or a wheel "
                          "of tf_stitch for this TensorFlow, which holds it (docs/getting_started.md)")
    failed = failed_builds.recall(cache.folder, key, compiler)
    if failed is not None:
        raise failed
    try:
        path = cache.put(key, _SUFFIX, _compile(compiler, library, flags, libraries, cache.folder),
                         lambda path: _check_loads(library, path))
        failed_builds.forget(cache.folder, key)
        return path
    except LastingError as error:
        failed_builds.remember(cache.folder, key, compiler, error)
        raise
    except BuildError as error:
        raise NativeError(error.message) from None
    except (OSError, RuntimeError) as error:  # no memory, no more threads
        raise NativeError(f"{library.name} could not be built: {error}") from error


def _digest(library: Library, settings: list[str]) -> str:
    """Hex sha256 of everything that decides what the compiler makes."""
    # Where TensorFlow lies does not matter: its version is among the settings.
    settings = [setting for setting in settings if not setting.startswith(("-I", "-L"))]
    digest = hashlib.sha256("\0".join(settings).encode())
    sources = _sources(SOURCE_DIR)
    for name in [*library.sources, *(name for name in sources if name.endswith(".h"))]:
        digest.update(name.encode() + b"\0" + sources[name])
    return digest.hexdigest()


def sources_digest() -> str:
    """What the libraries of one build of tf_stitch share, whatever the processor and TensorFlow are (16 hex digits)."""
    digest = hashlib.sha256(str(ABI_VERSION).encode())
    for name, content in _sources(SOURCE_DIR).items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


@cache
def _sources(folder: Path) -> dict[str, bytes]:
    """Contents of all C++ sources and headers, by their paths below a folder, in order. Read once: in each process
    `import tensorflow` looks for both libraries by their names, which depend on all of this."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".cc", ".h"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other processes out; they find the finished file afterwards. Who waits for longer than a build takes goes
    on: where both compile, atomic renames keep that right. So they do where there are no locks (some network folders).
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # in a folder that is only read
            file = stack.enter_context(open_lock(path))
            deadline = time.monotonic() + 2 * COMPILE_SECONDS
            while not _lock(file) and time.monotonic() < deadline:
                time.sleep(0.1)
        yield


def _lock(file: IO[bytes]) -> bool:
    """Raises OSError where there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_compiler() -> str | None:
    """Path of the C++ compiler, or None."""
    return find_program(COMPILERS)


def _compile(compiler: str, library: Library, flags: list[str], libraries: list[str], kept: Path) -> bytes:
    runs: list[Future[None]] = []
    activity = Activity(lambda: f"building {library.name} for this TensorFlow, once: {sum(r.done() for r in runs)} of "
                                f"{len(library.units)} parts")
    if not on_terminal():
        say(f"building {library.name} for this TensorFlow, once; it may take minutes")
    with activity.going_on():
        built = _compiled(compiler, library, flags, libraries, runs)
    if not on_terminal():
        say(f"built {library.name} for this TensorFlow in {activity.seconds:.0f} s, once (kept in {kept})")
    return built


def _compiled(compiler: str, library: Library, flags: list[str], libraries: list[str], runs: list[Future[None]]
              ) -> bytes:
    """
    Args:
        runs: gets the runs of the compiler.
    """
    with tempfile.TemporaryDirectory(prefix="tf_stitch-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [f"{folder}/{unit[0].replace('/', '_')}.o" for unit in library.units]
        linked, own_symbols = Path(folder, library.name), Path(folder, "own_symbols")
        own_symbols.write_text(_OWN_SYMBOLS)
        flags = [*flags, f'-DTFS_SOURCES="{sources_digest()}"']
        runs += [pool.submit(_run, library, [compiler, *flags, f"-I{SOURCE_DIR}", *special_flags(unit[0]), "-c",
                                             str(_file_of(unit, Path(made.removesuffix(".o")))), "-o", made])
                 for unit, made in zip(library.units, objects, strict=True)]
        try:
            for run in runs:
                run.result()
        except BaseException:  # Ctrl-C, or a source that is rejected
            for run in runs:
                run.cancel()
            while wait(runs, timeout=0.05).not_done:
                end_children()
            raise
        _run(library, [compiler, "-shared", *objects, "-o", str(linked), f"-Wl,--version-script={own_symbols}",
                       *libraries])
        return linked.read_bytes() if linked.exists() else b""


def _check_loads(library: Library, path: Path) -> None:
    """Loads a new library in another process: a broken one would end this one, and each that imports TensorFlow."""
    check_elf(path.read_bytes(), "the compiler")
    if not sys.executable:  # Python within another program
        return
    load = f"import tensorflow as tf; tf.load_op_library({str(path)!r})" if library.links_tensorflow else (
        f"import ctypes; ctypes.CDLL({str(path)!r})")
    tried = _try_run(library, python_code(load), plain_environment())
    if tried.returncode != 0:
        said = tried.stderr.strip().rpartition("\n")[2]  # below where it was raised
        raise _error_of(tried)(f"{library.name} was built, but cannot be loaded (exit {tried.returncode}): {said}")


def _file_of(unit: tuple[str, ...], joined: Path) -> Path:
    """What to compile: for several sources a file that includes them, `joined`."""
    if len(unit) == 1:
        return SOURCE_DIR / unit[0]
    joined.write_text("".join(f'#include "{source}"\n' for source in unit))
    return joined


def _run(library: Library, command: list[str]) -> None:
    run = _try_run(library, command)
    if run.returncode != 0:
        raise _error_of(run)(
            f"{command[0]} could not build {library.name} (exit {run.returncode}); it needs C++17 and the headers of "
            f"the installed TensorFlow:\n{_first_errors(run.stderr)}"
        )


def _error_of(run: subprocess.CompletedProcess[str]) -> type[NativeError]:
    return LastingError if refuses_the_source(run) else NativeError


def _try_run(library: Library, command: list[str], environment: Mapping[str, str] | None = None
             ) -> subprocess.CompletedProcess[str]:
    try:
        return run_compiler(command, COMPILE_SECONDS, environment)
    except subprocess.TimeoutExpired as error:
        raise NativeError(f"{command[0]} could not build {library.name}: it did not finish within "
                          f"{error.timeout:.0f} s, and was ended") from error
    except OSError as error:
        raise NativeError(f"{command[0]} could not build {library.name}: {error}") from error


def _first_errors(output: str) -> str:
    lines = output.splitlines()
    errors = [line for line in lines if "error" in line]
    return "\n".join((errors or lines)[:12])


@cache
def _say_once(message: str) -> None:
    say(message)
