"""The table of versions, from runs that were not made."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.plugin.installed_tensorflow import TESTED
from tools import versions
from tools.exported_symbols import WHEELS

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
    head = subprocess.run(["git", "-C", str(versions.ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    [row] = versions.read_rows(tmp_path / "versions.csv")
    assert (row.tensorflow, row.python, row.verdict) == ("tensorflow==2.16.2", "9.9", "no python9.9 here")
    assert row.date == str(dt.date.today())
    assert head.stdout.startswith(row.commit)
    assert out.read_text().splitlines()[-1].startswith("| tensorflow==2.16.2 | 9.9 |")
    assert out.read_text().splitlines()[-1].endswith(f"| no python9.9 here | {row.date} | {row.commit} |")


def test_a_run_of_one_version_leaves_the_rows_of_others() -> None:
    old = [versions.Row(wanted.partition("@")[0], "3.11", date="2026-01-01") for wanted in versions.WANTED]
    rows = versions.updated(reversed(old), versions.Row("tensorflow==2.18.1", "3.12", date="2026-02-02"))
    assert [row.tensorflow for row in rows] == [row.tensorflow for row in old]
    assert [row.tensorflow for row in rows if row.date == "2026-02-02"] == ["tensorflow==2.18.1"]


def test_the_page_is_of_the_rows_on_record() -> None:
    rows = versions.read_rows(versions.ROOT / "benchmarks" / "versions.csv")
    assert (versions.ROOT / "benchmarks" / "versions.md").read_text() == versions.page(rows)
    assert [row.tensorflow for row in rows] == [wanted.partition("@")[0] for wanted in versions.WANTED]
    assert {row.verdict for row in rows} == {"same"}
    assert all(row.regions and row.commit for row in rows)


def test_every_wheel_whose_symbols_are_known_is_wanted() -> None:
    assert [wanted.partition("@")[0] for wanted in versions.WANTED] == list(WHEELS)


def test_all_supported_versions_are_wanted() -> None:
    minors = {tuple(map(int, wanted.split("==")[1].split(".")[:2])) for wanted in versions.WANTED}
    assert minors == {(2, minor) for minor in range(TESTED[0][1], TESTED[1][1] + 1)}
    assert {wanted.split("@")[1] for wanted in versions.WANTED} == {"3.10", "3.11", "3.12", "3.13"}
