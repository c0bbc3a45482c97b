"""What the report says, as plain data: an entry for each graph, node, loop, region, kernel, executable and measurement.
Entries are frozen, for they say what happened; a RegionEntry alone is not, whose counts are known last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tf_stitch.planning.tuned_templates import TunedTemplate


@dataclass(frozen=True)
class NodeEntry:
    """One TensorFlow node of a graph: the region that holds it, or the reason why none does.

    Attributes:
        inputs: places in the graph's list of the nodes whose data it reads.
    """

    name: str
    op: str
    region: int | None
    reason: str | None
    inputs: list[int]


@dataclass(frozen=True)
class LoopEntry:
    """One while loop: how many copies of its body stand in its place, or why it is a loop still. Neither: it runs
    as one op, whose `regions` are the loop as a whole, its body, its condition, and perhaps what the host runs beside
    a body on a GPU; or its length is a size, and its region writes it out for each."""

    name: str
    steps: int | None
    reason: str | None
    regions: tuple[int, ...] = ()


@dataclass(frozen=True)
class BranchEntry:
    """One conditional: both of its sides are computed, and selects choose; or why it is a branch still.

    Attributes:
        name: what the user's program calls it, where TensorFlow kept that.
        node: a node of it in the graph as it was offered, by which its line is found.
        predicate: the tensor that decides.
        reason: why it stays; None if it became selects.
        nodes: on its sides, those of branches in it included.
        bytes: updated or chosen for nothing at most; 0 if it stays.
    """

    name: str
    node: str
    predicate: str
    reason: str | None
    nodes: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class GraphEntry:
    """One graph the hook saw. `left_out` counts working nodes by the reason they stayed TensorFlow ops; `loops` is
    empty where loops are left alone; `passes` are milliseconds by graph pass; `imports` says how often the graph was
    imported; `stitched_work` counts working nodes in regions; `again`: it holds our ops, from an earlier pass;
    `sources` are the user's files and lines, "train.py:12", by node, where a report is written; `branches` are
    conditionals."""

    graph: str
    device: str
    nodes: list[NodeEntry]
    stitched_nodes: int
    regions: list[int]
    left_out: dict[str, int]
    milliseconds: float
    loops: list[LoopEntry] = field(default_factory=list)
    passes: dict[str, float] = field(default_factory=dict)
    imports: int = 0
    stitched_work: int = 0
    again: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    branches: list[BranchEntry] = field(default_factory=list)

    @property
    def is_of_session(self) -> bool:
        """Whether Session.run runs it: TensorFlow gives all such graphs this name."""
        return self.graph == "tf_graph"


@dataclass(frozen=True)
class CudaGraphs:
    """CUDA graphs of a region's executables.

    Attributes:
        graphs: made, one an executable at a time.
        instances: made of them: one for each set of addresses, up to a few.
        making_us: microseconds that the host spent making both.
        launches: of instances; the runs before the first one went step by step.
        host_us: microseconds that the host spent for a launch, new addresses included; 0.0 without launches.
        known: launches of an instance that had all addresses already.
        known_us: microseconds that the host spent for one of these.
        updates: steps that got new addresses.
        programmatic: edges of the graphs by which a kernel is started beside the one it depends on.
        refused: graphs made without such edges, because none could be made with them.
        given_up: graphs destroyed for those of other executables of the region: it has eight at most.
        failures: executables whose steps are launched one by one because no graph could be made of them.
        error: why, the last time; "" if that never happened.
    """

    graphs: int
    instances: int
    making_us: float
    launches: int
    host_us: float
    known: int
    known_us: float
    updates: int
    programmatic: int
    refused: int
    given_up: int
    failures: int
    error: str


@dataclass
class RegionEntry:
    """One region. `wrap` is "native" or "py_function"; the counts are filled in when the report is made.

    Attributes:
        runs: calls that ran its kernels; of a loop's body, iterations that did.
        fallbacks: calls that ran TensorFlow's ops because the kernels could not.
        preferred_fallback_runs: calls that ran TensorFlow's ops because they are faster.
        shadow_runs: calls that ran TensorFlow's ops beside the kernels, to time them; their results were dropped.
        executables: shape signatures it has run with.
        builds: times it was compiled for sizes at hand, where kernels were missing: once for its first sizes, once for
            the second, and again after a build that was interrupted. Those for its equals are theirs. A compiler runs
            for each unless the cache has the kernels.
        builds_behind: further runs of a compiler, beside the program, for sizes that may come. (Sizes that come
            meanwhile wait for these; `builds` does not count that.)
        cuda_graphs: None on a CPU, and where it has not run.
    """

    id: int
    graph: str
    device: str
    wrap: str
    nodes: dict[str, str]  # TensorFlow node -> op
    inputs: int
    variables: int
    outputs: int
    executables: int = 0
    builds: int = 0
    builds_behind: int = 0
    runs: int = 0
    fallbacks: int = 0
    preferred_fallback_runs: int = 0
    shadow_runs: int = 0
    cuda_graphs: CudaGraphs | None = None


@dataclass(frozen=True)
class EdgeEntry:
    """How the value of one TensorFlow node gets to another within a kernel, or from one step of a node to the next
    (AStitch, Table 1), and why so. What no kernel has an edge for goes through memory."""

    producer: str
    user: str
    scheme: str
    why: str


@dataclass(frozen=True)
class KernelEntry:
    """One kernel of one executable of a region, or one library call: its rule is "library", its symbol what it does.

    Attributes:
        build: which executable of the region, from 0.
        pattern: its number among kernels and library calls of more than one node, in TF_STITCH_FUEL's order, of several
            that were fused the first; None: it has one node.
        launch: symbol of the launch that runs it, alone or with others; one of its build's launches; "" for none.
        nodes: TensorFlow nodes whose values it computes.
        node_schemes: how it hands on the values of those nodes that it uses itself; of several the result's is last.
        schemes: how many values it hands on in each way.
        edges: how each value that it uses itself gets from node to node.
        independent: nodes of its parts that hand each other nothing; empty for one part alone. No edge has this scheme.
        predicted_us: by the model; of a library call by measured times of matmuls, where the device has them.
        measured_us: by execution, where an earlier process did that.
        bytes: of its parameters, each moved once, or twice where updated.
        scratch_bytes: of the arrays that one of its blocks works in.
        shared_bytes: of those, what is in a GPU's shared memory.
        requested_bytes: of these if every array had memory of its own (FusionStitching, Table 4: alloc/req is
            scratch_bytes / requested_bytes).
        registers, spilled_bytes: of a thread of its launch, by the compiler; None on a CPU.
        compositions: how it composes its ops (schedule/composition.py).
        template: its schedule as a template (templates.py).
        chosen_by: who chose that: "rule", "tuned" or "forced"; of cooperative kernels several with "+" between.
    """

    region: int
    build: int
    pattern: int | None
    device: str
    symbol: str
    launch: str
    rule: str
    domain: list[int]
    nodes: list[str]
    node_schemes: dict[str, str]
    schemes: dict[str, int]
    predicted_us: float
    measured_us: float | None
    bytes: int
    scratch_bytes: int
    shared_bytes: int
    requested_bytes: int = 0
    registers: int | None = None
    spilled_bytes: int | None = None
    edges: list[EdgeEntry] = field(default_factory=list)
    independent: list[list[str]] = field(default_factory=list)
    compositions: list[str] = field(default_factory=list)
    template: str = ""
    chosen_by: str = "rule"


@dataclass(frozen=True)
class LaunchEntry:
    """One launch: its symbol in the source, and how it is launched.

    Attributes:
        buffers: dtype, elements, and whether it is read, of every parameter.
        cooperative: its blocks wait for each other, at a counter that its last parameter points to.
        static_shared_bytes: what its reductions take beside `shared_bytes`, by the compiler.
    """

    symbol: str
    grid: int
    threads: int
    shared_bytes: int
    buffers: list[tuple[str, int, bool]]
    cooperative: bool = False
    static_shared_bytes: int = 0


@dataclass(frozen=True)
class MemoryEntry:
    """Who is in the arena of an executable, and when. Bytes; times are those that lifetimes are counted in.

    Attributes:
        alive: at each time.
        peak: the first time at which most are.
        holders: TensorFlow nodes whose values are there at that time, and their bytes, the largest first; "" where a
            value belongs to none.
        least_bytes: that these kernels need at one time in whichever order they run.
        results_bytes: of outputs, beside the arena.
        step_us: predicted microseconds of all kernels and calls, for the least time.
        budgets: what fractions of the activations would cost (compiler/memory_curve.py): "fraction", "bytes" alive at
            most, "us" that a step takes longer, and whether that is "kept" to.
    """

    alive: list[int]
    peak: int
    holders: list[tuple[str, int]]
    least_bytes: int
    results_bytes: int
    step_us: float = 0.0
    budgets: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BuildEntry:
    """One executable: a region for one shape signature.

    Attributes:
        source: name of the kernels' file in sources/; None where no kernel is needed.
        arena_bytes: device memory for what one kernel hands to another.
        live_bytes: of that, what has to be there at one time: no arena for these kernels could be smaller.
        without_kernel: why no kernel is theirs -> TensorFlow nodes of the region.
        convolutions: how many there are, and kernels beside them that do no more than transpose; "" without any.
        memory: None where the kernels are those of other sizes.
    """

    region: int
    shapes: list[list[int]]
    cached: bool
    solver: dict[str, Any] | None
    seconds: dict[str, float]
    source: str | None
    launches: list[LaunchEntry]
    arena_bytes: int
    live_bytes: int
    without_kernel: dict[str, list[str]]
    convolutions: str = ""
    memory: MemoryEntry | None = None


@dataclass(frozen=True)
class ProfitabilityEntry:
    """The profitability check of a region for one shape signature: its kernels against the TensorFlow ops that they
    replaced. Times are medians in microseconds.

    Attributes:
        chosen: what runs from then on, "stitched" (the kernels) or "fallback" (TensorFlow's ops).
        recalled: an equal region was timed, perhaps by an earlier process.
        pairs: of timed calls, one of each form, that this rests on.
    """

    region: int
    device: str
    shapes: list[list[int]]
    stitched_us: float
    fallback_us: float
    chosen: str
    recalled: bool = False
    pairs: int = 0


@dataclass(frozen=True)
class StepEntry:
    """A function that the program called, of which regions were made.

    Attributes:
        function: TensorFlow's name of it.
        calls: by the program.
        before_us, now_us: microseconds of a call by TensorFlow's graph and by ours, of each turn.
        recalled: how many of the turns earlier processes measured, the first ones.
        why_not: why these are too few to say something; "" if they are enough.
    """

    function: str
    calls: int
    before_us: tuple[float, ...]
    now_us: tuple[float, ...]
    recalled: int
    why_not: str


@dataclass(frozen=True)
class TuneEntry(TunedTemplate):
    """Templates tried for one pattern, in the background.

    Attributes:
        kernel: what it computes, by the user's nodes.
        failed: templates that could not be built or timed.
        seconds: that it took.
    """

    kernel: str
    failed: int
    seconds: float
