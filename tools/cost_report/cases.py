"""The kernels that predictions are compared on: of the measured subgraphs, of the zoo's models, and of the scripts'
regions."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.config import load_config
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.text_parser import parse_graphs
from tf_stitch.kernel_ir.moved_bytes import moved_once
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.cost_model import Prediction, predict
from tf_stitch.runtime.device_profiles import device_spec
from tf_stitch.runtime.timed_kernel import TimedKernel
from tools.benchmark.cases import CASES
from tools.benchmark.subgraphs import IRREGULAR, SUBGRAPHS, Subgraph

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "tests" / "planning" / "graphs" / "zoo"
OTHER_SIZES = ((4096, 512), (300, 4000), (100_000, 200))
"""Rows and columns of the peers' subgraphs as "other sizes"; the overlap of lone waves was chosen in view of them."""
LARGEST_ON_CPU = 1 << 28
"""Bytes; a subgraph beyond is measured on fewer rows."""


@dataclass(frozen=True)
class Case:
    """One kernel.

    Attributes:
        group: "peers", "irregular", "other sizes", "zoo", or the script.
        subgraph: what it is a kernel of.
        key: names the kernel's code, whatever it is called; equal kernels are measured once.
        source: number of the source that holds it.
        moved: bytes of what it reads and writes, scratch included, if every element moves once in each direction.
        prediction: microseconds of its parts.
    """

    group: str
    subgraph: str
    rule: str
    domain: tuple[int, int]
    ops: int
    key: str
    source: int
    kernel: TimedKernel
    moved: int
    predicted_us: float
    prediction: dict[str, float]


@dataclass
class Cases:
    """Cases, and the sources of their kernels."""

    cases: list[Case]
    sources: list[str]

    def extend(self, other: Cases) -> None:
        """Appends another set's new kernels."""
        known = {case.key for case in self.cases}
        base = len(self.sources)
        self.sources += other.sources
        self.cases += [Case(**{**vars(case), "source": case.source + base})
                       for case in other.cases if case.key not in known]  # fmt: skip


def device_of(target: str) -> DeviceSpec:
    """What to predict for: an H200, or one core of this machine."""
    return H200 if target == "cuda" else replace(device_spec(load_config().cache_dir, None), processors=1)


def of_kernels(group: str, subgraph: str, kernels: Sequence[LoweredKernel], device: DeviceSpec) -> Cases:
    """Cases of the kernels of one compiled region, those of equal code once."""
    unique = list({kernel.program: kernel for kernel in kernels if kernel.program.grid}.values())
    if not unique:
        return Cases([], [])
    source, timed = timed_kernels([kernel.program for kernel in unique], device)
    cases = []
    for kernel, one in zip(unique, timed, strict=True):
        domain = kernel.schedule.domain
        prediction = predict(kernel.program, device)
        # Called again and again, a CPU kernel costs what it does and next to nothing for the call.
        us = prediction.us - (0.0 if device.simt else prediction.launch)
        cases.append(Case(group, subgraph, kernel.schedule.family, (domain.rows, domain.cols),
                          len(kernel.schedule.pattern.nodes), _key(kernel, device), 0, one,
                          moved_once(kernel.program), us, _parts(prediction)))  # fmt: skip
    return Cases(cases, [source])


def _key(kernel: LoweredKernel, device: DeviceSpec) -> str:
    program = kernel.program
    text = f"{device.target} {program.buffers} {program.grid} {program.threads} {program.body}"
    return sha256(text.encode()).hexdigest()[:16]


def _parts(prediction: Prediction) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in asdict(prediction).items()}


def subgraph_cases(device: DeviceSpec) -> Cases:
    """Kernels of the peers' and the irregular subgraphs, and of the peers' at other sizes."""
    found = Cases([], [])
    for (group, name), region in subgraph_regions(device):
        found.extend(of_kernels(group, name, region.kernels, device))
    return found


def subgraph_regions(device: DeviceSpec) -> Iterator[tuple[tuple[str, str], CompiledRegion]]:
    """The subgraphs by group and name, compiled."""
    resized = [s.resized(rows, columns) for s in SUBGRAPHS if s.rows > 1 for rows, columns in OTHER_SIZES]
    for group, subgraphs in (("peers", SUBGRAPHS), ("irregular", IRREGULAR), ("other sizes", resized)):
        for subgraph in map(_fitting if not device.simt else lambda s: s, subgraphs):
            region = compile_region(subgraph.graph(), subgraph.inputs(), subgraph.variables(), CompileOptions(device))
            name = f"{subgraph.name.rpartition(' ')[0]} {subgraph.rows}x{subgraph.columns}"
            yield (group, name), region


def _fitting(subgraph: Subgraph) -> Subgraph:
    """Fewer rows, or columns where there are few rows, until memory is small enough for a CPU."""
    while subgraph.floor_bytes() > LARGEST_ON_CPU:
        rows, columns = subgraph.rows, subgraph.columns
        subgraph = subgraph.resized(max(rows // 4, 1), columns if rows > 3 else columns // 4)
    return subgraph


def programs(folder: Path = ZOO) -> list[str]:
    """Models and scripts' steps that zoo_graphs.py has made texts of."""
    return sorted({path.name.split(".")[0] for path in folder.glob("*.gz")})


def program_cases(device: DeviceSpec, names: Sequence[str], folder: Path = ZOO) -> Iterator[Cases]:
    """Kernels of the regions of models of the zoo and of scripts' steps, from their texts: no TensorFlow is needed.

    Raises:
        FileNotFoundError: one whose text is not there.
    """
    for name in names:
        kernels = [kernel for region in program_regions(device, name, folder) for kernel in region.kernels]
        yield of_kernels(name if name in CASES else "zoo", name, kernels, device)


def program_regions(device: DeviceSpec, name: str, folder: Path = ZOO) -> list[CompiledRegion]:
    """The regions of a model or of a script's step, compiled.

    Raises:
        FileNotFoundError: its text is not there.
    """
    text = gzip.decompress((folder / f"{name}.{'region' if device.simt else 'ops'}.txt.gz").read_bytes())
    options = CompileOptions(device)
    return [compile_region(graph, *arguments_of(graph), options) for graph in parse_graphs(text.decode())]
