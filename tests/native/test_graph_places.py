"""Which executables of a region have CUDA graphs, by a driver that only keeps books.

A line is `title: executables that ran as graphs | instances of graphs`; of graphs that deliver outputs early or
wait for inputs, what is asked of the driver, in order.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
three runs: | 0 live, 0 made, 0 given up, 0 failed
in turns: 0 1 2 3 4 5 6 7 | 8 live, 8 made, 0 given up, 0 failed
others, not for long: | 8 live, 8 made, 0 given up, 0 failed
the first again: 0 1 2 3 4 5 6 7 | 8 live, 8 made, 0 given up, 0 failed
others from now on: 20 21 22 | 8 live, 11 made, 3 given up, 0 failed
all: 3 4 5 6 7 20 21 22 | 8 live, 11 made, 3 given up, 0 failed
one: 40 | 8 live, 12 made, 4 given up, 0 failed
others are dropped: 0 1 2 3 | 4 live, 16 made, 4 given up, 0 failed
no graph can be made: | 4 live, 16 made, 0 given up, 10 failed
after failures: 0 1 2 3 | 4 live, 16 made, 4 given up, 0 failed
0 live
a region: 0 1 2 3 4 5 6 7 | 8 live, 24 made, 0 given up, 0 failed
what the process has left: 0 1 | 10 live, 26 made, 0 given up, 0 failed
its own are replaced: 5 6 | 10 live, 28 made, 2 given up, 0 failed
nothing is left: | 10 live, 28 made, 0 given up, 0 failed
places of executables that are dropped: 0 | 3 live, 29 made, 0 given up, 0 failed
early outputs: kernel 1, kernel 2, 1 before 2, event 1 after 2, kernel 3, 2 before 3, event 2 after 1, launch, launch, \
ready: 2 1
late inputs: kernel 1, wait 2 for event 8, 2 before 1, kernel 3, wait 4 for event 7, 4 before 3, kernel 5, 1 before 5, \
2 before 5, launch, launch,
other events: kernel 1, wait 2 for event 8, 2 before 1, kernel 3, wait 4 for event 7, 4 before 3, kernel 5, \
1 before 5, 2 before 5, launch, 2 waits for event 9, launch,
not late at first: kernel 1, kernel 2, kernel 3, 1 before 3, launch, stream waits for event 7, \
stream waits for event 8, launch,
not late any more: kernel 1, kernel 2, wait 3 for event 7, 3 before 2, kernel 4, 1 before 4, launch, launch,
"""


def test_an_executable_that_runs_takes_the_place_of_one_that_does_not(tmp_path: Path) -> None:
    program = tmp_path / "program"
    names = ("cuda/cuda_graph.cc", "cuda/graph_nodes.cc", "cuda/graph_places.cc")
    sources = [Path(__file__).with_name("graph_places_program.cc"), *(SOURCE_DIR / name for name in names)]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", *(f"-I{folder}" for folder in headers), *map(str, sources),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == WANTED.splitlines()
