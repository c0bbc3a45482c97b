"""What decodes words of graphs and modules, sanitized, on mutated ones."""

from __future__ import annotations

import re
from pathlib import Path

from tools.fuzz.native_words import build, feed, write_corpus

MUTANTS = 3_000


def test_mutated_words_are_refused_or_right(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", ("perceptron", "char_train"), 3)  # the second has an arena of several segments
    done = feed(build(tmp_path), tmp_path / "corpus", MUTANTS, 1, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counts = {kind: int(count) for kind, count in re.findall(r"(\w+): (\d+) mutants", done.stdout)}
    assert sum(counts.values()) == MUTANTS
    assert set(counts) == {"executables", "modules", "roles"}
