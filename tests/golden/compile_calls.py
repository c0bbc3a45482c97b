"""Prints how many Python functions are called to make sources of the largest region of models on an H200, as JSON by
name of the model: what compiling costs, whatever the machine and whoever else runs on it.

    PYTHONHASHSEED=0 python -m tests.golden.compile_calls NAME...
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from tests.differential.runner import keys_of
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import H200
from tf_stitch.ir.text_parser import parse_graphs

ZOO = Path(__file__).parents[1] / "planning" / "graphs" / "zoo"


def calls(name: str) -> int:
    """From a graph to its sources, with nothing compiled before."""
    graphs = parse_graphs(gzip.decompress((ZOO / f"{name}.region.txt.gz").read_bytes()).decode())
    graph = max(graphs, key=lambda graph: len(list(graph.nodes())))
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        source = compile_region(graph, *keys_of(graph), CompileOptions(H200)).source
    finally:
        sys.setprofile(None)
    assert source
    return count


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as processes:  # none has another's caches
        print(json.dumps(dict(zip(sys.argv[1:], processes.map(calls, sys.argv[1:], chunksize=1), strict=True))))
