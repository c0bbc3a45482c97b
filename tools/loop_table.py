"""How the loops of programs run, on a CPU and on a GPU: as copies, folded, as one op, or as TensorFlow's own nodes.
Needs no GPU: nodes are put where TensorFlow would have them.

    python -m tools.loop_table          writes benchmarks/loops.md, about 8 minutes
    python -m tools.loop_table --only=scan,decoding
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf
from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.plugin import graph_hook
from tools.benchmark.loop_fates import Watcher, failed
from tools.benchmark.loop_programs import PROGRAMS, Program
from tools.benchmark.raw_rows import command_line

PAGE = Path(__file__).resolve().parents[1] / "benchmarks" / "loops.md"
HEAD = """# How loops run

What becomes of each loop of a program, by a CPU's graph and by a GPU's. "one op": the loop's body is one region, and
the host runs one op for all iterations; on a GPU the host decides beside the body, or waits for the body's condition.
"no loop": the program's op has none inside that TensorFlow's graph shows (cuDNN's, which stays as it is).
"""

_ONLY = flags.DEFINE_list("only", None, "programs by name")

def main(_: Sequence[str]) -> None:
    keras.utils.set_random_seed(1)
    wanted = [name for name in PROGRAMS if _ONLY.value is None or any(part in name for part in _ONLY.value)]
    lines = [*HEAD.splitlines(), "", f"Made by `{command_line(sys.argv)}`, TensorFlow {tf.__version__}, Keras "
             f"{keras.__version__}.", "", "| program | on a CPU | on a GPU |", "| --- | --- | --- |"]
    for name in wanted:
        cells = ["; ".join(seen(PROGRAMS[name], device)) for device in ("CPU", "GPU")]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
        print(lines[-1], flush=True)
    if _ONLY.value is None:
        PAGE.write_text("\n".join(lines) + "\n")


def seen(program: Program, device: str) -> list[str]:
    """What became of a program's loops, each once: TensorFlow offers a graph again, what it has optimized since."""
    watcher = Watcher(device)
    graph_hook.install(watcher.see, failed, load_config().cache_dir)
    # Of a CPU's nodes TensorFlow makes some (_MklSwish) that are on no GPU.
    tf.config.optimizer.set_experimental_options({"remapping": device == "CPU"})
    program()
    last = {loop.name: loop.fate for loop in watcher.loops}
    return list(dict.fromkeys(fate.replace("|", "/") for fate in last.values())) or ["no loop"]


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    app.run(main)
