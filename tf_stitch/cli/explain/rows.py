"""A report document as rows: for every op its region and kernels, or why it has none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tf_stitch.cli.explain.load import Document

READ = "a read of a variable, which the region's kernels read in place"
KNOWN = "its value is known when the graph is read: nothing is left to compute"
SHARED = "part of another node's formula gives the same value, which is computed once"
LOOP = "the op that runs the loop does this itself"
LIBRARY = "library"
_STITCHED = ("StitchOp", "StitchStateOp", "StitchWhile")
_HELD, _VARIABLE = "StitchHandle", "VarHandleOp"
"""What stands for the handle of a variable that a function holds, and what a reader knows it as."""
_HAND_ON = ("Identity", "StopGradient", "PreventGradient", "Snapshot")


@dataclass(frozen=True)
class Kernel:
    """A kernel of a region.

    Attributes:
        symbol: of a library call what it computes.
        rule: the kernel family behind it; "library" for a library call.
        measured_us: None where nobody measured.
        shared_launch: kernels that ran in that time, itself among them.
        nbytes: moved by it, of its parameters.
        scratch: bytes of the arrays that one of its blocks works in.
        requested: as scratch, if each array had memory of its own.
        registers, spilled: of a thread, and bytes of them in memory; None on a CPU.
        edges: (producer, user) -> how the value gets there, and why; of several steps the last, which gives the result.
        independent: ops of its parts that hand each other nothing (AStitch, Table 1); empty for one part alone.
        compositions: how its ops are composed (FusionStitching, Fig. 5).
        template: its schedule; "" for a library call.
        chosen_by: who chose that.
    """

    name: str
    symbol: str
    rule: str
    rows: int
    cols: int
    ops: int
    schemes: dict[str, int]
    node_schemes: dict[str, str]
    predicted_us: float
    measured_us: float | None
    shared_launch: int
    nbytes: int
    scratch: int
    requested: int = 0
    registers: int | None = None
    spilled: int | None = None
    edges: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    independent: tuple[tuple[str, ...], ...] = ()
    compositions: tuple[str, ...] = ()
    template: str = ""
    chosen_by: str = ""

    @property
    def now_us(self) -> float:
        """Microseconds of a run: its part of a measured launch, else as predicted."""
        return self.predicted_us if self.measured_us is None else self.measured_us / self.shared_launch


@dataclass(frozen=True)
class Check:
    """A region's time against TensorFlow's ops in the run: microseconds of both, and whether these run since."""

    stitched_us: float
    plain_us: float
    gave_way: bool

    @property
    def now_us(self) -> float:
        """Of what runs."""
        return self.plain_us if self.gave_way else self.stitched_us

    def __str__(self) -> str:
        runs = "so it gave way to them" if self.gave_way else "so its kernels run"
        return f"{self.stitched_us:.1f} us in the run, {self.plain_us:.1f} us by TensorFlow's ops, {runs}"


@dataclass(frozen=True)
class Region:
    """A region as its last executable has it.

    Attributes:
        arena: what its kernels hand to each other, in bytes.
        live: of that, what has to be there at one time.
        cuda_graphs: as the report has them; None without any.
        measured_us: sum over its kernels, not its library calls; None where one is not known.
        check: None: it was not timed in the run.
        problem: why there is no executable.
        loop: its part in a loop that runs as one op; None without.
        is_whole_loop: it is the loop, which has no executable of its own.
        convolutions: its convolutions and transposes beside them, in words; "" without any.
    """

    number: int
    wrap: str
    ops: int
    kernels: tuple[Kernel, ...]
    executables: int
    runs: int
    fallbacks: int
    solver: dict[str, Any] | None
    measured_us: float | None
    arena: int
    live: int
    cuda_graphs: dict[str, Any] | None
    check: Check | None
    problem: str | None
    loop: str | None = None
    is_whole_loop: bool = False
    convolutions: str = ""

    @property
    def predicted_us(self) -> float:
        return sum(kernel.predicted_us for kernel in self.kernels)

    @property
    def now_us(self) -> float:
        """Microseconds of a run: measured in the program, else as predicted."""
        return self.check.now_us if self.check else self.predicted_us

    @property
    def total_us(self) -> float:
        """Of all of its runs; of one where nothing ran."""
        return self.now_us * max(self.runs, 1)


@dataclass(frozen=True)
class Op:
    """One TensorFlow node. `why` is None where a kernel computes it; `inputs` are places in the graph's list; `source`
    is where the user's program made it, "train.py:12", "" where nobody knows."""

    name: str
    op: str
    region: int | None
    kernels: tuple[Kernel, ...]
    why: str | None
    inputs: tuple[int, ...]
    source: str = ""

    @property
    def scheme(self) -> str:
        """How its value reaches other ops of its kernels."""
        found = (kernel.node_schemes.get(self.name) for kernel in self.kernels)
        return "+".join(dict.fromkeys(scheme for scheme in found if scheme))


@dataclass(frozen=True)
class Graph:
    """A graph as TensorFlow offered it, and the regions found in it."""

    name: str
    device: str
    ops: tuple[Op, ...]
    regions: tuple[Region, ...]


def graphs(document: Document) -> Iterator[Graph]:
    """The document's graphs. TensorFlow offers a graph again after its rewrite, which tells nothing new: left out."""
    builds = last_builds(document)
    kernels = _kernels(document, builds)
    regions = {entry["id"]: _region(document, entry, builds.get(entry["id"]), [k for k, _ in kernels[entry["id"]]])
               for entry in document["regions"]}  # fmt: skip
    by_node: dict[tuple[int, str], list[Kernel]] = {}
    for number, pairs in kernels.items():
        for kernel, nodes in pairs:
            for node in nodes:
                by_node.setdefault((number, node), []).append(kernel)
    idle = {(number, node): reason for number, (_, build) in builds.items()
            for reason, nodes in build["without_kernel"].items() for node in nodes}  # fmt: skip
    seen: dict[str, set[str]] = {}
    for graph in document["graphs"]:
        own = {node["name"] for node in graph["nodes"] if node["op"] not in _STITCHED}
        known = seen.setdefault(graph["graph"], set())
        if not graph["stitched_nodes"] and known and (own <= known or len(own) < len(graph["nodes"])):
            continue
        known |= own
        values = _values(graph["nodes"], by_node.keys() | idle.keys())
        sources = graph.get("sources", {})
        ops = tuple(replace(op, source=sources.get(op.name, "")) for op in
                    (_op(i, graph["nodes"], values, regions, by_node, idle) for i in range(len(values))))
        yield Graph(graph["graph"], graph["device"], ops, tuple(regions[number] for number in graph["regions"]))


def last_builds(document: Document) -> dict[int, tuple[int, dict[str, Any]]]:
    """Of each region with executables the last one: its number, and its entry."""
    found: dict[int, tuple[int, dict[str, Any]]] = {}
    for build in document["builds"]:
        region = build["region"]
        found[region] = found[region][0] + 1 if region in found else 0, build
    return found


def _values(nodes: list[dict[str, Any]], known: Collection[tuple[int, str]]) -> list[int]:
    """For each node the one that stands for its value: of one that hands it on its operand; of those with equal op and
    operands, which a region shares, the one that has a kernel or a reason of its own, else the first.

    Args:
        known: (region, node) with a kernel or a reason.
    """
    first: dict[tuple[Any, ...], int] = {}
    found: list[int] = []
    for i, node in enumerate(nodes):
        operands = tuple(found[j] if j < i else j for j in node["inputs"])  # a loop's back edge leads forward
        if node["op"] in _HAND_ON and operands:
            found.append(operands[0])
        elif operands and (node["region"] is not None or node["op"] == "ReadVariableOp"):
            found.append(first.setdefault((node["region"], node["op"], operands), i))
        else:
            found.append(i)
    stands = {found[i]: i for i, node in reversed(list(enumerate(nodes))) if (node["region"], node["name"]) in known}
    return [stands.get(i, i) for i in found]


def _vanished(place: int, nodes: list[dict[str, Any]], values: list[int]) -> str:
    """Why a node of a region is not in the graph that its kernels are made from."""
    node, first = nodes[place], nodes[values[place]]
    if node["op"] in _HAND_ON:
        return f"hands on the value of {first['name']}"
    if values[place] != place:
        return f"repeats {first['name']}, which is computed once"
    if all(nodes[values[j]]["op"] == "Const" for j in node["inputs"]):
        return KNOWN
    return SHARED


def _op(place: int, nodes: list[dict[str, Any]], values: list[int], regions: dict[int, Region],
        by_node: dict[tuple[int, str], list[Kernel]], idle: dict[tuple[int, str], str]) -> Op:  # fmt: skip
    node = nodes[place]
    number, why = node["region"], node["reason"]
    kernels = tuple(by_node.get((number, node["name"]), ()))
    if number is not None and not kernels:
        stored = [nodes[i]["name"] for i in node["inputs"] if (number, nodes[i]["name"]) in by_node]
        if regions[number].problem and not regions[number].kernels:
            why = regions[number].problem
        elif regions[number].is_whole_loop:
            why = LOOP
        elif node["op"] == "ReadVariableOp":
            why = READ
        elif node["op"].startswith("Assign") and stored:
            why = f"the kernel that computes {stored[-1]} writes its variable"
        else:
            why = idle.get((number, node["name"])) or _vanished(place, nodes, values)
    op, why = (text and text.replace(_HELD, _VARIABLE) for text in (node["op"], why))
    return Op(node["name"], op, number, kernels, why, tuple(node["inputs"]))


def _kernels(document: Document, builds: dict[int, tuple[int, dict[str, Any]]]
             ) -> dict[int, list[tuple[Kernel, list[str]]]]:  # fmt: skip
    """Kernels of each region's last executable, with the nodes each computes."""
    entries: dict[int, list[dict[str, Any]]] = {entry["id"]: [] for entry in document["regions"]}
    for entry in document["kernels"]:
        if entry["build"] == builds[entry["region"]][0]:
            entries[entry["region"]].append(entry)
    return {number: [(_kernel(f"{number}.{i}", entry, mine), entry["nodes"]) for i, entry in enumerate(mine)]
            for number, mine in entries.items()}  # fmt: skip


def _kernel(name: str, entry: dict[str, Any], of_region: list[dict[str, Any]]) -> Kernel:
    rows, cols = entry["domain"]
    together = 1
    if entry["device"] == "gpu" and entry.get("whole_launch"):  # a CPU's launch runs one kernel
        together = sum(other["launch"] == entry["launch"] for other in of_region)
    edges = {(e["producer"], e["user"]): (e["scheme"], e["why"]) for e in entry.get("edges", ())}
    return Kernel(name, entry["symbol"], entry["rule"], rows, cols, len(entry["nodes"]), entry["schemes"],
                  entry["node_schemes"], entry["predicted_us"], entry.get("measured_us"), together, entry["bytes"],
                  entry["scratch_bytes"], entry.get("requested_bytes", 0), entry.get("registers"),
                  entry.get("spilled_bytes"), edges, tuple(map(tuple, entry.get("independent", ()))),
                  tuple(entry.get("compositions", ())), entry.get("template", ""),
                  entry.get("chosen_by", ""))  # fmt: skip


def _region(document: Document, entry: dict[str, Any], last: tuple[int, dict[str, Any]] | None,
            kernels: list[Kernel]) -> Region:  # fmt: skip
    number = entry["id"]
    troubles = [f"{f['stage']}: {f['reason']}" for f in document["fallbacks"]
                if f["where"].partition(" (")[0] == f"region {number}"]  # fmt: skip
    loop, is_whole_loop = _loop(document, number)
    built = last is not None or (is_whole_loop and entry["runs"])
    problem = "; ".join(troubles) or (None if built else "has not run, so no kernels were built")
    build: dict[str, Any] = last[1] if last else {"solver": None, "arena_bytes": 0, "live_bytes": 0}
    return Region(number, entry["wrap"], len(entry["nodes"]), tuple(kernels), entry["executables"], entry["runs"],
                  entry["fallbacks"], build["solver"], _measured(kernels), build["arena_bytes"],
                  build["live_bytes"], entry["cuda_graphs"], _check(document, number), problem, loop,
                  is_whole_loop, build.get("convolutions", ""))  # fmt: skip


def _loop(document: Document, region: int) -> tuple[str | None, bool]:
    """A region's part in a loop that runs as one op, in words, and whether it is the loop."""
    for loop in (loop for graph in document["graphs"] for loop in graph.get("loops", ())):
        if region in loop.get("regions", ()):
            whole, body, condition, *beside = loop["regions"]
            parts = {whole: f"the loop {loop['name']} as one op: region {body} again and again, as long as region "
                            f"{condition} says so",
                     body: f"the body of the loop {loop['name']}, region {whole}",
                     condition: f"the condition of the loop {loop['name']}, region {whole}"}  # fmt: skip
            parts |= dict.fromkeys(beside, f"the host's part of the loop {loop['name']}, region {whole}")
            return parts[region], region == whole
    return None, False


def _check(document: Document, region: int) -> Check | None:
    """What the profitability check found last."""
    found = [entry for entry in document.get("profitability", []) if entry["region"] == region]
    if not found:
        return None
    return Check(found[-1]["stitched_us"], found[-1]["fallback_us"], found[-1]["chosen"] == "fallback")


def _measured(kernels: list[Kernel]) -> float | None:
    """Sum over the launches of kernels; a launch that runs several counts once."""
    own = [k for k in kernels if k.rule != LIBRARY]
    known = [k.measured_us / k.shared_launch for k in own if k.measured_us is not None]
    return sum(known) if own and len(known) == len(own) else None
