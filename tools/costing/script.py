"""Runs two steps of a script with tf_stitch on, and writes the kernels of the regions it built, for another device.

    python -m tf_stitch tools/costing/script.py encoder_train cuda FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from benchmarking.cases import CASES  # noqa: E402
from costing.cases import Cases, device_of, of_kernels  # noqa: E402
from tf_stitch import pipeline  # noqa: E402
from tf_stitch.integration import regions  # noqa: E402

STEPS = 2
_Call = tuple[tuple[Any, ...], dict[str, Any]]


def main(name: str, target: str, out: Path) -> None:
    device = device_of(target)
    calls: list[_Call] = []

    def recording(*args: Any, **kwargs: Any) -> pipeline.CompiledRegion:
        calls.append((args, kwargs))
        return pipeline.compile_region(*args, **kwargs)

    regions.compile_region = recording
    step = CASES[name]("tf_stitch")
    for _ in range(STEPS):
        step()
    found = Cases([], [])
    for graph, inputs, variables, *_ in [args for args, _ in calls]:
        compiled = pipeline.compile_region(graph, inputs, variables, pipeline.CompileOptions(device))
        found.extend(of_kernels(name, graph.name, compiled.kernels, device))
    out.write_text(json.dumps(found.document()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
