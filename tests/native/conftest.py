"""A StitchOp whose regions are built by the tests themselves, with kernels compiled from C text."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tf_stitch.config import load_config
from tf_stitch.errors import StitchError
from tf_stitch.native.bindings import UNLIMITED, DeviceMemory, OpLibrary, Verdict, load_op
from tf_stitch.native.build import SOURCE_DIR
from tf_stitch.native.fallback_call import FallbackCall
from tf_stitch.placement.executable_format import ABI_VERSION, Space, StepCode

INPUT, OUTPUT, VARIABLE, FRESH, ARENA, BARRIER = Space
HOST_LAUNCH, DEVICE_LAUNCH, COPY, LIBRARY_CALL = StepCode
_region_ids = itertools.count(1000)


def executable(
    outputs: Sequence[Sequence[int]],
    steps: Sequence[Sequence[int]],
    arena: Sequence[int] = (),
    state: Sequence[tuple[int, int]] = (),
    updated: Sequence[tuple[int, int]] = (),
    images: Sequence[tuple[int, int]] = (),
) -> list[int]:
    """The words of an executable; `outputs` are dims, `arena` bytes of segments, `updated` outputs with inputs,
    `images` addresses and bytes of modules."""
    words = [ABI_VERSION, len(arena), *arena, len(outputs)]
    for dims in outputs:
        words += [len(dims), *dims]
    words += [len(state), *itertools.chain.from_iterable(state)]
    words += [len(updated), *itertools.chain.from_iterable(updated)]
    words += [len(images), *itertools.chain.from_iterable(images), len(steps)]
    return words + list(itertools.chain.from_iterable(steps))


def launch(function: int, *operands: tuple[int, int], sizes: Sequence[int] = ()) -> list[int]:
    return [HOST_LAUNCH, function, len(operands), *itertools.chain.from_iterable(operands), len(sizes), *sizes]


def shapes_of(key: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes of the inputs and variables of a key."""
    shapes, words = [], list(key[1:])
    while words:
        rank = words.pop(0)
        shapes.append(tuple(words[:rank]))
        del words[:rank]
    return shapes


class Regions:
    """Dispatches the op's callbacks to the functions of each test's regions."""

    def __init__(self, library: OpLibrary) -> None:
        self.library = library
        self._build: dict[int, Callable[[tuple[int, ...]], Sequence[int] | None]] = {}
        self._fallback: dict[int, Callable[[FallbackCall], None]] = {}
        self.builds: dict[int, list[tuple[int, ...]]] = {}
        self._subgraph: dict[int, Callable[[str], bytes | None]] = {}
        self.known: dict[int, Verdict] = {}
        """What is recalled of a region."""
        self.settled: dict[int, list[tuple[int, tuple[int, ...], Verdict]]] = {}
        """Device, key and what was measured."""
        self.calls: dict[int, int] = {}
        """The number of the call before which that was known."""
        self.untimed: dict[int, list[str]] = {}
        self.names: dict[int, dict[int, str]] = {}
        """What profilers are to call a region's steps."""
        self.named: dict[int, list[tuple[int, ...]]] = {}
        """Keys for which that was asked."""
        self.smaller: dict[int, list[Sequence[int]]] = {}
        """Executables that take less each, in the order in which they are asked for."""
        self.free: dict[int, list[int | None]] = {}
        """What was free when they were."""
        self.connect()

    def connect(self, token: int = 0) -> None:
        self.library.set_callbacks(self._on_build, self._on_subgraph, self._on_fallback, self, self._on_labels,
                                   token=token, smaller=self._on_smaller)

    def recall(self, region: int, device: int, key: tuple[int, ...]) -> Verdict | None:
        return self.known.get(region)

    def settle(self, region: int, device: int, key: tuple[int, ...], measured: Verdict, call: int) -> Verdict:
        self.settled.setdefault(region, []).append((device, key, measured))
        self.calls.setdefault(region, call)
        return self.known.setdefault(region, measured)

    def not_timed(self, region: int, reason: str) -> None:
        self.untimed.setdefault(region, []).append(reason)

    def verdict(self, region: int) -> Verdict | None:
        """What was measured first, if that has led to anything."""
        return self.settled[region][0][2] if region in self.settled else None

    def add(
        self,
        build: Callable[[tuple[int, ...]], Sequence[int] | None],
        fallback: Callable[[FallbackCall], None] | None = None,
        subgraph: Callable[[str], bytes | None] = lambda reason: None,
    ) -> int:
        region = next(_region_ids)
        self._build[region], self.builds[region] = build, []
        self._subgraph[region] = subgraph
        if fallback is not None:
            self._fallback[region] = fallback
        return region

    def _on_build(self, region: int, device: int, key: tuple[int, ...], memory: DeviceMemory) -> Sequence[int] | None:
        self.builds[region].append(key)
        return self._build[region](key)

    def _on_smaller(self, region: int, device: int, key: tuple[int, ...], free: int | None) -> Sequence[int]:
        self.free.setdefault(region, []).append(free)
        if not self.smaller.get(region):
            raise StitchError("it needs more than there is")
        return self.smaller[region].pop(0)

    def _on_labels(self, region: int, device: int, key: tuple[int, ...]) -> dict[int, str]:
        self.named.setdefault(region, []).append(key)
        return self.names[region]

    def _on_subgraph(self, region: int, reason: str) -> bytes | None:
        return self._subgraph[region](reason)

    def _on_fallback(self, region: int, call: FallbackCall) -> None:
        self._fallback[region](call)

    def call(
        self,
        region: int,
        inputs: Sequence[Any] = (),
        variables: Sequence[Any] = (),
        types: Sequence[Any] = (np.float32,),
    ) -> Any:
        """Runs the op; variables go in as resource handles."""
        op = self.library.raw_ops.stitch_state_op if variables else self.library.raw_ops.stitch_op
        handles = [variable.handle for variable in variables]
        return op(inputs=list(inputs), variables=handles, Tout=list(types), region=region, output_shapes=[])


@pytest.fixture(scope="session")
def library() -> OpLibrary:
    return load_op(load_config().cache_dir)


@pytest.fixture(scope="module")  # what converts a model in this process takes the op's callbacks away at its end
def regions(library: OpLibrary) -> Regions:
    return Regions(library)


@pytest.fixture
def check(regions: Regions) -> Iterator[None]:
    """Regions are timed against their own nodes, series following each other at once."""
    regions.library.enable_profitability_check(True, apart=0, share=UNLIMITED)
    yield
    regions.library.enable_profitability_check(False)


def said_by_threads(source: str, folder: Path) -> str:
    """What a program of this folder prints, which is built in another one and runs threads that ThreadSanitizer
    watches."""
    program = folder / "program"
    subprocess.run(["g++", "-std=c++17", "-O1", "-fsanitize=thread", f"-I{SOURCE_DIR}",
                    str(Path(__file__).parent / source), "-o", str(program), "-pthread"], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Callable[[str], int]]:
    """Compiles C text; the result gives the addresses of its functions."""
    folder: Path = tmp_path_factory.mktemp("kernels")

    def compile_text(text: str) -> Callable[[str], int]:
        stem = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        source = stem.with_suffix(".c")
        source.write_text(f'#include "cpu/stitch_abi.h"\n#include <string.h>\n{text}')
        library = stem.with_suffix(".so")
        subprocess.run(
            ["gcc", "-O2", "-shared", "-fPIC", f"-I{SOURCE_DIR}", str(source), "-o", str(library)], check=True
        )
        handle = ctypes.CDLL(str(library))
        return lambda name: int(ctypes.cast(getattr(handle, name), ctypes.c_void_p).value or 0)

    return compile_text
