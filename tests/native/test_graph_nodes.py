"""Nodes and edges of CUDA graphs, by a driver that only keeps books: which edges let a kernel start early.

A line is `title: nodes edges | count`: nodes with a number that tells them apart (+: with attributes), edges as
`from-to`, programmatic ones as `from~to`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
one kernel: kernel 7 kernel+ 1 kernel 7 0-1 1~2 0~2 | 2 programmatic
three nodes: kernel 7 memset 1 kernel+ 2 kernel+ 3 kernel 7 1-2 2~3 0-1 3~4 0~4 | 2 programmatic
a memset: kernel 7 memset 1 kernel 7 0-1 1-2 0~2 | 1 programmatic
side by side: kernel 7 graph 0 kernel 7 0-1 1-2 0~2 | 1 programmatic
a fork: kernel 7 graph 0 kernel 7 0-1 1-2 0~2 | 1 programmatic
a copy: kernel 7 graph 0 kernel 7 0-1 1-2 0~2 | 1 programmatic
nothing: kernel 7 graph 0 kernel 7 0-1 1-2 0~2 | 1 programmatic
a cooperative kernel: kernel 7 kernel+ 1 kernel+ 7 0-1 1-2 0-2 | 0 programmatic
kernels that do not wait: kernel 7 kernel+ 1 kernel 7 0-1 1-2 0-2 | 0 programmatic
not wanted: kernel 7 kernel+ 1 kernel 7 0-1 1-2 0-2 | 0 programmatic
new addresses: memset 5 kernel 6 |
other nodes: | a library recorded other kernels for other addresses
new addresses of a graph: graph |
an event: kernel 7 kernel+ 1 memset 2 event 9 1-2 0-3 2-3 | 0 programmatic
an old driver: kernel 7 graph 0 kernel 7 0-1 1-2 0-2 | 0 programmatic
"""


def test_edges_are_programmatic_where_both_ends_allow_it(tmp_path: Path) -> None:
    program = tmp_path / "program"
    sources = [Path(__file__).with_name("graph_nodes_program.cc"), SOURCE_DIR / "cuda/graph_nodes.cc"]
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", f"-I{SOURCE_DIR}", *map(str, sources), "-o", str(program)],
                   check=True)  # fmt: skip
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert [line.rstrip() for line in said.splitlines()] == WANTED.splitlines()
