"""What becomes of the loops of the zoo's models on a GPU; needs none. Nodes are put where TensorFlow would have them,
on the GPU where it has a kernel, before loops are looked at.

    python -m tools.zoo_loops                      all, some minutes
    python -m tools.zoo_loops --names=asr,crnn     some
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf
from absl import app, flags

from models.program import Model, Options
from models.zoo import NAMES, load
from tf_stitch.config import load_config
from tf_stitch.plugin import graph_hook
from tools.benchmark.loop_fates import Watcher, failed, rows

_NAMES = flags.DEFINE_list("names", None, "models of the zoo")
_CONFIG = flags.DEFINE_string("config", "small", "of the models")


def main(_: Sequence[str]) -> None:
    for name in _NAMES.value or NAMES:
        model = load(name)
        for mode in model.modes:
            watcher = Watcher()
            graph_hook.install(watcher.see, failed, load_config().cache_dir)
            run(model, mode)
            print(f"{name} {mode}", *rows(watcher.loops), sep="\n  ", flush=True)


def run(model: Model, mode: str) -> None:
    """One step."""
    keras.backend.clear_session()
    program = model.build(Options(_CONFIG.value))
    program.train(0) if mode == "train" else program.infer(0)


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    app.run(main)
