"""What budgets of memory cost train steps, as planned for an H200: MiB, predicted time, seconds of planning. No GPU is
needed, and nothing is run.

    python -m tools.budget_plans                                     # a GPT-2 of 4 and one of 24 layers: some minutes
    python -m tools.budget_plans --cases=convnext_tiny_train_32 --budgets=auto,0.5,2GiB --out=/tmp/try.json.gz

A case is one of tools.memory_peaks. Budgets are those of TF_STITCH_MEMORY. Writes rows and, from them, the page beside
them (benchmarks/budget_plans.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.budget_rows import Row, cells, page, rows
from tools.benchmark.machine import describe_cpu
from tools.benchmark.raw_rows import command_line, page_of, raw_rows, write_rows

_CASES = flags.DEFINE_list("cases", ["gpt2:4x1024x16x512x50257x8", "gpt2:24x1024x16x512x50257x8"], "what trains")
_BUDGETS = flags.DEFINE_list("budgets", ["auto", "0.7", "0.5", "0.3", "2GiB"], "of memory")
_OUT = flags.DEFINE_string("out", str(raw_rows("budget_plans")), "file for the rows; the page is beside it")


def main(_: Sequence[str]) -> None:
    path, found = Path(_OUT.value), list[Row]()
    document = {"machine": describe_cpu(), "command": command_line(sys.argv), "rows": found}
    for case in _CASES.value:
        for row in rows(case, _BUDGETS.value):
            found.append(row)
            print(" | ".join(cells(row)), flush=True)
            write_rows(path, document)
    page_of(path).write_text("\n".join(page(document)) + "\n")


if __name__ == "__main__":
    app.run(main)
