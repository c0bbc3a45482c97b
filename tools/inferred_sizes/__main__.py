"""Which sizes that TensorFlow's inference calls equal are not, for every op that can be run with arguments drawn here.

    python -m tools.inferred_sizes --out=benchmarks/inferred_sizes.json
    python -m tools.inferred_sizes --ops=SpaceToBatch,Pad

An op is run with sizes that differ; inference is asked about the same call with all sizes unknown. Ops of which it says
what is not so belong into tf_stitch/graph/shapes/untrusted_ops.py, which a test compares with what this writes.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

_OPS = flags.DEFINE_list("ops", None, "names; none: all")
_SEED = flags.DEFINE_integer("seed", 0, "of the draws")
_DRAWS = flags.DEFINE_integer("draws", 600, "of an op at most")
_OUT = flags.DEFINE_string("out", None, "JSON to write")
_HERE = flags.DEFINE_bool("here", False, "in this process: a line of JSON for each op")
SECONDS = 120
"""For one op; a call may hang."""
LEFT_OUT = ("Abort", "Barrier", "Collective", "Nccl", "TPU", "Xla", "Debug", "Dataset", "Iterator", "Print", "Assert",
            "Timestamp", "Exit", "Enter", "Merge", "Switch", "NextIteration", "LoopCond", "Send", "Recv", "Batch",
            "Quantized", "Save", "Restore", "File", "Audio", "Image", "Jpeg", "Png", "Gif", "Bmp", "Decode", "Encode",
            "Summary", "Placeholder", "PyFunc", "EagerPyFunc", "Stitch", "Uniform", "Csr", "CSR", "Mkl", "Boosted",
            "Ragged", "Variable", "Queue", "Stack", "TensorArray", "Lookup", "HashTable", "Risc", "Fingerprint")
"""Parts of names of ops whose results have no inferred sizes that matter here, or that wait for others, read files or
end the process. What they share with another op's name (Stack, Batch) is tried all the same."""
TRIED = ("BatchMatMul", "BatchToSpace", "SpaceToBatch", "BatchNorm", "BatchSelf", "UnbatchGrad", "Uniform", "Pack",
         "RandomUniform", "StatelessRandomUniform", "ResizeNearest", "ResizeBilinear", "ResizeBicubic", "ExtractImage",
         "CropAndResize", "BatchCholesky", "BatchMatrix", "QuantizedReshape")


def main(_: Sequence[str]) -> None:
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client import pywrap_tf_session

    ops = OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    wanted = set(_OPS.value) if _OPS.value else None
    chosen = [op for op in ops.op if wanted is None or op.name in wanted]
    if _HERE.value:
        for op in chosen:
            print(json.dumps({op.name: _checked(op)}), flush=True)
        return
    rows: dict[str, dict[str, Any]] = {}
    pending = [op.name for op in chosen]
    while pending:
        for row in _in_a_process(pending):
            rows |= row
        done = [name for name in pending if name in rows]
        pending = pending[len(done):]
        if pending:  # the process ended there
            rows[pending[0]] = {"left_out": "ends the process, or hangs"}
            pending = pending[1:]
    _report(rows)


def _in_a_process(names: Sequence[str]) -> list[dict[str, dict[str, Any]]]:
    command = [sys.executable, "-m", "tools.inferred_sizes", "--here", f"--ops={','.join(names)}",
               f"--seed={_SEED.value}", f"--draws={_DRAWS.value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        rows = [json.loads(line) for line in process.stdout if line.startswith("{")]
    return rows


def _checked(op: Any) -> dict[str, Any]:
    import signal

    import tensorflow as tf

    from tools.inferred_sizes.check import check_op
    from tools.inferred_sizes.draw import Unsuitable

    if op.name.startswith("_") or not hasattr(tf.raw_ops, op.name):
        return {"left_out": "is not for programs"}
    if any(part in op.name for part in LEFT_OUT) and not any(part in op.name for part in TRIED):
        return {"left_out": "reads files, waits for others, or has no sizes that are inferred"}
    signal.alarm(SECONDS)
    try:
        found = check_op(op, _SEED.value, _DRAWS.value)
    except Unsuitable as error:
        return {"left_out": str(error)}
    finally:
        signal.alarm(0)
    return {"runs": found.runs, "wrong": found.wrong}


def _report(rows: dict[str, dict[str, Any]]) -> None:
    import tensorflow as tf

    wrong = {name: row["wrong"] for name, row in rows.items() if row.get("wrong")}
    counts = {"ops": len(rows), "checked": sum(row.get("runs", 0) > 0 for row in rows.values()),
              "no draw ran": sum(row.get("runs") == 0 for row in rows.values()),
              "left out": sum("left_out" in row for row in rows.values()), "wrong": len(wrong)}
    print(json.dumps(counts))
    for name, what in wrong.items():
        print(name, *(f"{said}: {call}" for said, call in what.items()), sep="\n    ")
    if _OUT.value:
        document = {"tensorflow": tf.__version__, "date": str(dt.date.today()), "seed": _SEED.value,
                    "draws": _DRAWS.value, "counts": counts, "ops": rows}
        Path(_OUT.value).write_text(json.dumps(document, indent=0) + "\n")


if __name__ == "__main__":
    app.run(main)
