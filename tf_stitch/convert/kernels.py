"""Builds the kernels of regions for the shapes that they are to run with, ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.config import StitchConfig
from tf_stitch.convert.targets import BuildTarget
from tf_stitch.emit.rendered import Rendered
from tf_stitch.errors import StitchError
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.canonical_symbols import with_canonical_symbols
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.jit.shape_family import Change, Shapes
from tf_stitch.placement.executable import Executable
from tf_stitch.planning.matmul_choice import stitching_of
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.device_query import cpu_count
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_ptx
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.registry import target_of

KERNELS_OF_A_LIBRARY = 24
"""That one run of a compiler makes: runs go side by side."""


@dataclass(frozen=True)
class RegionKernels:
    """An executable of a region for some shapes.

    Attributes:
        library: symbol -> number of the library that has it.
        kernels: how many of its steps launch one.
        calls: how many call a library.
    """

    executable: Executable
    library: Mapping[str, int]
    kernels: int
    calls: int


@dataclass
class Kernels:
    """What was built for one target.

    Attributes:
        built: (region, shapes) -> executable.
        failed: (region, shapes) -> why there is none.
        sources: of each library.
        files: of each library, level -> file of the cache.
    """

    target: BuildTarget
    built: dict[tuple[int, Shapes], RegionKernels] = field(default_factory=dict)
    failed: dict[tuple[int, Shapes], str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    files: list[dict[int, Path]] = field(default_factory=list)


class AheadBuilder:
    """Builds for one target. Regions of equal structure share kernels.

    Args:
        said: gets the progress, as a part of 1.
    """

    def __init__(self, config: StitchConfig, target: BuildTarget, said: Callable[[float], None] = lambda part: None
                 ) -> None:
        self._config, self._target, self._said = config, target, said
        self._cache = KernelCache(config.cache_dir / "kernels")
        self._plans = KernelCache(config.cache_dir / "plans")

    def build(self, regions: Sequence[RegionGraph], wanted: Mapping[int, Sequence[Shapes]]) -> Kernels:
        """Executables of regions, by their places, for the shapes wanted of each. A region that cannot be built for
        some shapes runs its own nodes there."""
        made = Kernels(self._target)
        compiled: dict[tuple[int, Shapes], CompiledRegion] = {}
        groups = _alike(regions, wanted)
        for done, group in enumerate(groups):
            for shapes, result in self._compile(group.region, group.shapes):
                for number in group.members:
                    if shapes not in wanted[number]:
                        continue
                    if isinstance(result, str):
                        made.failed[number, shapes] = result
                    else:
                        compiled[number, shapes] = result
            self._said((done + 1) / len(groups) / 2)
        self._build_all(compiled, made)
        return made

    def _options(self) -> CompileOptions:
        spec, config = self._target.spec, self._config
        plan = PlanOptions(config.planner, config.ilp_seconds, matmuls=stitching_of(config.matmuls, spec))
        reuse = Reuse(config.reuse)
        circumstances = tuple(map(repr, ("ahead of time", spec, plan, reuse)))
        return CompileOptions(spec, plan, True, reuse=reuse, stored=StoredPlans(self._plans, circumstances))

    def _compile(self, region: RegionGraph, shapes: Sequence[Shapes]) -> Iterable[tuple[Shapes, CompiledRegion | str]]:
        """Kernels are named after their text on CPUs, and where sizes change."""
        place = PlacedRegion(0, region, -1, True, tf32=self._target.spec.tf32)
        options = self._options()
        loops = any(node.kind is OpKind.LOOP for node in region.graph.nodes())
        changing = frozenset[str]()
        try:
            sizes = [place.sizes(one) for one in shapes]
            changing = frozenset(name for name in sizes[0] if len({s[name] for s in sizes}) > 1)
        except StitchError:
            pass  # each says it below
        change, plans = Change(changing), PlanMemory()
        for one in shapes:
            try:
                yield one, self._compiled(place, one, options, change, plans, changing, loops)
            except StitchError as error:
                yield one, str(error)

    def _compiled(self, place: PlacedRegion, shapes: Shapes, options: CompileOptions, change: Change,
                  plans: PlanMemory, changing: frozenset[str], loops: bool) -> CompiledRegion:
        for node in place.bound(shapes).nodes():
            if node.type.numel == 0:
                raise StitchError("a tensor has no elements", node.loc)
        named = changing or not self._target.on_gpu
        if named and not loops:
            sized = replace(options, plans=plans)
            try:
                before = place.compiled_as_before(shapes, change, sized)
                return before or place.compiled_for_sizes(shapes, change, sized)
            except StitchError:
                if not changing:
                    raise
        only = replace(options, plans=PlanMemory()) if not self._target.on_gpu else options
        return compile_region(place.bound(shapes), *place.arguments(), only)

    def _build_all(self, compiled: Mapping[tuple[int, Shapes], CompiledRegion], made: Kernels) -> None:
        library_of: dict[str, int] = {}
        rendered = {symbol: one for region in compiled.values() for symbol, one in region.rendered.items()}
        for chunk in _chunks(rendered):
            library_of |= dict.fromkeys(chunk, len(made.sources))
            made.sources.append(target_of(self._target.spec).emission.source([rendered[symbol] for symbol in chunk]))
        own: dict[str, int] = {}  # of sources whose symbols are theirs alone
        for key, region in compiled.items():
            where: Mapping[str, int] = library_of
            if region.source and not region.rendered:
                if region.source not in own:
                    own[region.source] = len(made.sources)
                    made.sources.append(region.source)
                where = dict.fromkeys(region.programs, own[region.source])
            made.built[key] = RegionKernels(region.executable, where, len(region.kernels), len(region.calls))
        made.files += self._files(made.sources)

    def _files(self, sources: Sequence[str]) -> list[dict[int, Path]]:
        """Raises:
            BuildError: a compiler is missing, or rejected a kernel.
        """
        target, found = target_of(self._target.spec), list[dict[int, Path]]({} for _ in sources)
        jobs = [(i, level) for i in range(len(sources)) for level in self._target.levels]

        def build(job: tuple[int, int]) -> Path:
            number, level = job
            if level < 0:
                return build_ptx(sources[number], self._target.levels[level], self._cache)
            return target.build(sources[number], self._target.levels[level], self._cache)

        with ThreadPoolExecutor(cpu_count()) as pool:
            for done, ((number, level), file) in enumerate(zip(jobs, pool.map(build, jobs), strict=True)):
                found[number][level] = file
                self._said(0.5 + (done + 1) / len(jobs) / 2)
        return found


@dataclass(frozen=True)
class _Group:
    region: RegionGraph
    members: Sequence[int]
    shapes: Sequence[Shapes]


def _alike(regions: Sequence[RegionGraph], wanted: Mapping[int, Sequence[Shapes]]) -> list[_Group]:
    """Regions of equal structure, with the shapes that any of them is wanted for."""
    found: dict[str, tuple[RegionGraph, list[int]]] = {}
    for number in sorted(wanted):
        graph = with_canonical_symbols(regions[number].graph)
        region = replace(regions[number], graph=graph)
        key = f"{region.assumes} {len(region.inputs)} {anonymous_text(graph)}"
        found.setdefault(key, (region, []))[1].append(number)
    return [_Group(region, members, list(dict.fromkeys(s for m in members for s in wanted[m])))
            for region, members in found.values()]


def _chunks(rendered: Mapping[str, Rendered]) -> list[list[str]]:
    symbols = sorted(rendered)
    return [symbols[i:i + KERNELS_OF_A_LIBRARY] for i in range(0, len(symbols), KERNELS_OF_A_LIBRARY)]
