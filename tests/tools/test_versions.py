"""The table of versions, from runs that were not made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools import versions

PLAIN = {"losses": [2.0, 1.0], "steady_step_ms": 20.0}


def report(wrap: str = "native") -> dict[str, Any]:
    return {"regions": [{"wrap": wrap}], "fallbacks": []}


@pytest.mark.parametrize(("losses", "said", "verdict"), [
    ([2.0, 1.0], report(), "same"),
    ([2.0, 1.1], report(), "DIFFERENT"),
    ([2.0], report(), "DIFFERENT"),
    ([2.0, 1.0], report("py_function"), "no native op"),
    ([2.0, 1.0], None, "nothing was stitched"),
])  # fmt: skip
def test_verdicts(losses: list[float], said: dict[str, Any] | None, verdict: str) -> None:
    found = versions.compare(PLAIN, {"losses": losses, "steady_step_ms": 10.0}, said)
    assert found["verdict"] == verdict
    assert found["speedup"] == 2


def test_what_cannot_be_installed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "versions.md"
    monkeypatch.setattr("sys.argv", ["versions", "tensorflow==2.16.2@9.9", "--out", str(out)])
    assert versions.main() == 1
    assert out.read_text().splitlines()[-1].startswith("| tensorflow==2.16.2 | 9.9 |")
    assert out.read_text().splitlines()[-1].endswith("| no python9.9 here |")
    assert "`tools/versions.sh tensorflow==2.16.2@9.9`" in out.read_text()


def test_all_supported_versions_are_wanted() -> None:
    from tf_stitch.plugin.installed_tensorflow import TESTED

    minors = [tuple(map(int, wanted.split("==")[1].split(".")[:2])) for wanted in versions.WANTED]
    assert minors == [(2, minor) for minor in range(TESTED[0][1], TESTED[1][1] + 1)]
    assert {wanted.split("@")[1] for wanted in versions.WANTED} == {"3.10", "3.11", "3.12", "3.13"}
