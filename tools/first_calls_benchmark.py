"""What a first call costs: TensorFlow's, and tf_stitch's with nothing on disk and with what that left.

Each is a process of its own, in turns; rows go to --out as they come, and what it has is not measured again. Times of
first calls are processor seconds, compilers included, and seconds on the wall; beside them stands what the first call
and the next --calls take on the wall together, while tf_stitch works beside them.

    python -m tools.first_calls_benchmark --case=encoder_train --case=bert/train --repeat=3
    python -m tools.first_calls_benchmark --zoo                        # all models, trained and run
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from absl import app, flags

from models.zoo import DECODERS, NAMES, RECOMMENDERS
from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library
from tools.benchmark.model_cases import ModelCase
from tools.benchmark.workers import Worker

BACKENDS = ("tensorflow", "cold", "warm")
_PATIENCE = 300.0

_CASES = flags.DEFINE_multi_string("case", [], "of tools/benchmark/cases.py, or model/mode of the zoo")
_ZOO = flags.DEFINE_bool("zoo", False, "all models of the zoo, trained and run")
_REPEAT = flags.DEFINE_integer("repeat", 1, "turns of each", lower_bound=1)
_CALLS = flags.DEFINE_integer("calls", 30, "after the first", lower_bound=1)
_ASYNC = flags.DEFINE_string("async", "auto", "TF_STITCH_ASYNC of the processes")
_OUT = flags.DEFINE_string("out", None, "file for the rows, as JSON")


@dataclass(frozen=True)
class Row:
    """Of one process: the first call on processors and on the wall, and all calls on the wall."""

    case: str
    backend: str
    processor_s: float
    wall_s: float
    all_s: float


def measure(case: str, backend: str, cache: Path) -> Row:
    """
    Raises:
        RuntimeError, TimeoutError: the program failed.
    """
    name = str(ModelCase(*case.split("/"))) if "/" in case else case
    ours = {"TF_STITCH_CACHE": str(cache), "TF_STITCH_ASYNC": _ASYNC.value}
    plain = backend == "tensorflow"
    worker = Worker("worker", name, "tensorflow" if plain else "tf_stitch",
                    backend="tensorflow" if plain else "tf_stitch", variables={} if plain else ours)
    first = worker.ask("run", 1, limit=_PATIENCE)
    others = worker.ask("run", _CALLS.value, limit=_PATIENCE)
    if backend == "cold":  # the next process finds all
        worker.ask("settle", _PATIENCE, limit=2 * _PATIENCE)
    worker.close()
    return Row(case, backend, first["processor"][0], first["seconds"][0], sum(first["seconds"] + others["seconds"]))


def ratios(rows: Iterable[Row], field: str) -> dict[str, dict[str, float]]:
    """Case -> backend -> median over TensorFlow's."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row.case, {}).setdefault(row.backend, []).append(getattr(row, field))
    medians = {case: {b: statistics.median(v) for b, v in values.items()} for case, values in found.items()}
    return {case: {b: value / of["tensorflow"] for b, value in of.items() if b != "tensorflow"}
            for case, of in medians.items() if "tensorflow" in of}


def table(rows: Sequence[Row]) -> str:
    """Markdown: ratios to TensorFlow's times."""
    fields = {field: ratios(rows, field) for field in ("processor_s", "wall_s", "all_s")}
    columns = [(field, backend) for field in fields for backend in BACKENDS[1:]]
    head = ["case", *(f"{field.removesuffix('_s')}, {backend}" for field, backend in columns)]
    lines = [head, ["---"] * len(head)]
    for case in fields["wall_s"]:
        lines.append([case, *(f"{fields[field][case].get(backend, math.nan):.2f}" for field, backend in columns)])
    known = [[of[backend] for of in fields[field].values() if backend in of] for field, backend in columns]
    lines.append(["geometric mean", *(f"{statistics.geometric_mean(values or [math.nan]):.2f}" for values in known)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(_: Sequence[str]) -> None:
    zoo = NAMES + RECOMMENDERS + DECODERS if _ZOO.value else ()
    cases = [*_CASES.value, *(f"{model}/{mode}" for model in zoo for mode in ("train", "infer"))]
    for library in (STITCH_OP, GRAPH_HOOK):
        native = build_library(library, load_config().cache_dir).parent
    out = Path(_OUT.value) if _OUT.value else None
    rows = [Row(**row) for row in json.loads(out.read_text())["rows"]] if out is not None and out.exists() else []
    for case in cases:
        if any(row.case == case for row in rows):
            continue
        for _ in range(_REPEAT.value):
            with tempfile.TemporaryDirectory() as folder:
                cache = Path(folder, "cache")
                shutil.copytree(native, cache / "native")
                try:
                    rows += [measure(case, backend, cache) for backend in BACKENDS]
                except (RuntimeError, TimeoutError) as error:
                    print(f"{case}: {error}", flush=True)
                    break
        if not any(row.case == case for row in rows):
            continue
        print(table([row for row in rows if row.case == case]).splitlines()[-2], flush=True)
        if out is not None:
            out.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=0) + "\n")
    print(table(rows))


if __name__ == "__main__":
    app.run(main)
