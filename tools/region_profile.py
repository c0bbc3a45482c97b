"""What calls of region_benchmark.py are made of: the host's part, library kernels, memory-intensive ones, copies.

In a CUDA graph of tf_stitch kernels begin before the one before has ended, and their wait counts as their time. So they
are profiled in a process that makes no graphs (TF_STITCH_CUDA_GRAPHS=0), too.

    python -m tools.region_profile                          # a GPU: benchmarks/h200_region_profile.md
    python -m tools.region_profile --rows=mlp_4x256_batch256/train
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark import workers
from tools.benchmark.machine import describe_cpu, describe_gpu
from tools.benchmark.profile_table import table
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows

ROOT = Path(__file__).resolve().parents[1]


FORMS = {"TensorFlow": ("tensorflow", {}), "XLA": ("xla", {}), "tf_stitch": ("tf_stitch", {}),
         "tf_stitch, no CUDA graphs": ("tf_stitch", {"TF_STITCH_CUDA_GRAPHS": "0"}),
         "a call that does nothing": ("call", {})}  # fmt: skip
"""Name -> backend, environment variables."""

_ROWS = flags.DEFINE_list("rows", ["encoder_12x768_batch32_length128/train", "encoder_6x512_batch8_length64/infer",
                                   "mlp_4x256_batch256/train"], "workload/mode")  # fmt: skip
_CALLS = flags.DEFINE_integer("calls", 20, "calls that are timed and profiled")
_WARM_UP = flags.DEFINE_integer("warm_up", 300, "calls before: CUDA graphs are made; the profitability check decides")
_OUT = flags.DEFINE_string("out", str(raw_rows("h200_region_profile")), "a .md goes beside it")

Result = workers.Result


def measure(workload: str, mode: str) -> Result:
    """Form -> what its process answered; the others wait meanwhile."""
    created = {form: workers.Worker("profile_worker", workload, mode, backend, backend=backend, variables=variables)
               for form, (backend, variables) in FORMS.items()}  # fmt: skip
    try:
        for worker in created.values():
            worker.wait()
        return {form: worker.ask(_WARM_UP.value, _CALLS.value) for form, worker in created.items()}
    finally:
        for worker in created.values():
            worker.close()


def main(_: Sequence[str]) -> None:
    document: Result = {"command": command_line(sys.argv), "machine": describe_cpu() | describe_gpu(),
                        "rows": {}}  # fmt: skip
    out = Path(_OUT.value)
    for name in _ROWS.value:
        document["rows"][name] = measure(*name.split("/"))
        write_rows(out, document)
        page_of(out).write_text(table(document))
    print(table(document))


if __name__ == "__main__":
    app.run(main)
