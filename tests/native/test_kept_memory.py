"""Scratch memory that stays where it is (op/kept_memory.h)."""

from __future__ import annotations

from pathlib import Path

from tests.native.conftest import said_by_threads

WANTED = """\
1 0
first: 1 of 10, 1 alive
again: 1 of 10, 1 alive
smaller: 1 of 10, 1 alive
larger: 2 of 30, 1 alive
first again: 2 of 30, 1 alive
while it is taken: none, 1 alive
mine: 2 of 30, 1 alive
too much at once: none, 0 alive
beyond the room: none, 0 alive
new: 3 of 100, 1 alive
given back after 16 calls or less: 1, 0 alive
with room: 4 of 100, 1 alive
lent: 4 of 100, 1 alive
lent twice: none, 1 alive
dropped while it is lent: none, 1 alive
lent in vain: none, 0 alive
nothing to lend: none, 0 alive
again after that: 5 of 100, 1 alive
dropped: none, 0 alive
others: 1 1
at the end: 0 alive
threads: 0 together, some had it: 1, 0 alive
"""


def test_who_comes_in_turns_finds_the_same_memory(tmp_path: Path) -> None:
    assert said_by_threads("kept_memory_program.cc", tmp_path) == WANTED
