"""Members of a sum over devices wait for each other without a thread (op/local_rendezvous.h)."""

from __future__ import annotations

from pathlib import Path

from tests.native.conftest import said_by_threads

WANTED = """\
first:
of another key:
twice: (rank 1 of 2 comes twice)
of another size: (rank 0 of 3 where others have 2)
beyond: (rank 2 of 2)
last: 10 11
first again:
to be cancelled:
cancelled: 31
cancelled again:
before it comes:
then it comes: (it was cancelled)
alone: 50
after the end:
threads: 2000 ended, 0 wrong
"""


def test_the_last_takes_all_and_who_left_is_not_let_in(tmp_path: Path) -> None:
    assert said_by_threads("local_rendezvous_program.cc", tmp_path) == WANTED
