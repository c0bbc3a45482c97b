"""Collects the regions of the zoo's models (small configurations) and of the scripts' steps as texts, for tests of
plans and for `cost_report.py`, which then need no TensorFlow.

    python -m tools.zoo_graphs                     all, some minutes
    python -m tools.zoo_graphs --names=bert,asr    some
    python -m tools.zoo_graphs --config=medium --scopes=region --out=DIR    larger ones, for cost_report.py --graphs=DIR

Writes tests/planning/graphs/zoo/NAME.SCOPE.txt.gz: SCOPE is "ops" (regions as on CPUs) or "region" (as on GPUs). A
graph that an earlier region of the same program has is left out.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.ir.text_parser import parse_graph

ROOT = Path(__file__).resolve().parents[1]


FOLDER = ROOT / "tests" / "planning" / "graphs" / "zoo"
SCRIPTS = ("encoder_inference", "encoder_train", "word2vec_train", "char_train")
RUN_SCRIPT = "from benchmarking.cases import CASES; step = CASES[{!r}]('tf_stitch'); step(); step()"

_NAMES = flags.DEFINE_list("names", None, "models of the zoo, or steps of models/scripts")
_CONFIG = flags.DEFINE_string("config", "small", "of the models")
_SCOPES = flags.DEFINE_list("scopes", ["ops", "region"], "what regions hold")
_OUT = flags.DEFINE_string("out", str(FOLDER), "folder of the texts")


def main(_: Sequence[str]) -> None:
    from models.zoo import NAMES  # TensorFlow

    folder = Path(_OUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _NAMES.value or [*NAMES, *SCRIPTS]:
        if name in SCRIPTS:
            command = ["-c", RUN_SCRIPT.format(name)]
        else:
            command = ["-m", f"models.{name.replace('-', '_')}", "--steps=1", f"--config={_CONFIG.value}"]
        for scope in _SCOPES.value:
            with tempfile.TemporaryDirectory() as dump:
                run(command, scope, Path(dump))
                text = "".join(texts(Path(dump)))
            # No name and time in the archive: equal graphs are equal files.
            (folder / f"{name}.{scope}.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            print(f"{name} {scope}", flush=True)


def run(command: Sequence[str], scope: str, dump: Path) -> None:
    """Runs a Python program with tf_stitch on; it writes its regions into `dump`.

    Raises:
        subprocess.CalledProcessError: the program fails.
    """
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("TF_STITCH_") or name == "TF_STITCH_CACHE"}
    environment = kept | {"TF_STITCH": "1", "TF_STITCH_GUARD": "0", "TF_STITCH_SCOPE": scope,
                          "TF_STITCH_LOOP_OP": "auto" if scope == "ops" else "0",  # GPUs split them
                          "TF_STITCH_DUMP_DIR": str(dump), "TF_CPP_MIN_LOG_LEVEL": "3",
                          "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, stdout=sys.stderr)


def texts(dump: Path) -> Iterator[str]:
    """The graphs of a dump, without names of nodes, each once."""
    known: set[str] = set()
    for path in sorted(dump.glob("*.graph.0_bound.txt"), key=_number):
        graph = parse_graph(path.read_text())
        text = anonymous_text(graph)
        if text not in known:
            known.add(text)
            yield text.replace("graph ", f"graph {graph.name}", 1) + "\n"


def _number(path: Path) -> tuple[int, ...]:
    """region_12_0.graph.0_bound.txt: region and build."""
    return tuple(int(word) for word in path.name.split(".")[0].split("_")[1:])


if __name__ == "__main__":
    app.run(main)
