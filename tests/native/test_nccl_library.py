"""Sums over GPUs, by an NCCL that keeps books: communicators are made once, all streams get their part in one group,
and what fails is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tf_stitch.native.build import SOURCE_DIR

HERE = Path(__file__).parent
ONE, TWO = (f"  7 of type 6, operation 0, communicator {{}}, stream {n}: {10 * n} to {10 * n + 1}\n" for n in (1, 2))
FOUR = "  7 of type 6, operation 0, communicator {}, stream 4: 40 to 41\n"
WHOLE = "group\n" + ONE.format(3) + TWO.format(4) + "end\n"
WANTED = (
    '"not loaded"\n'
    'loading: ""\n'
    'communicators of 0 1\n"ncclCommInitAll: internal error"\n'
    f'communicators of 0 1\n{WHOLE}""\n'
    f'{WHOLE}""\n'
    f'communicators of 1 3\ngroup\n{TWO.format(5)}{FOUR.format(6)}end\n""\n'
    'group\n"ncclGroupStart: internal error"\n'
    f'group\n{ONE.format(3)}end\n"ncclAllReduce: internal error"\n'  # a group that began ends, whatever fails in it
    f'{WHOLE}"ncclGroupEnd: internal error"\n'
)


def test_what_is_asked_of_the_library(tmp_path: Path) -> None:
    fake, program = tmp_path / "libfake.so", tmp_path / "program"
    library = ["-shared", "-fPIC", str(HERE / "fake_nccl.cc"), "-o", str(fake)]
    subprocess.run(["g++", "-std=c++17", *library], check=True)
    sources = [HERE / "nccl_program.cc", SOURCE_DIR / "cuda" / "nccl_library.cc"]
    subprocess.run(["g++", "-std=c++17", "-O1", f"-I{SOURCE_DIR}", *map(str, sources), "-o", str(program), "-ldl",
                    "-pthread"], check=True)  # fmt: skip
    assert subprocess.run([str(program), str(fake)], check=True, capture_output=True, text=True).stdout == WANTED
