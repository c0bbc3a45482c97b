"""Parts of a sum over devices wait for each other without a thread (op/meetings.h)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
first:
of another meeting:
twice: (part 1 of 2 comes twice)
of another size: (part 0 of 3 where others have 2)
beyond: (part 2 of 2)
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
    program = tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-O1", "-fsanitize=thread", f"-I{SOURCE_DIR}",
                    str(Path(__file__).parent / "meetings_program.cc"), "-o", str(program), "-pthread"], check=True)
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == WANTED
