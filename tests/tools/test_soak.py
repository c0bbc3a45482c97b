from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.models import keras_export
from tf_stitch.convert.command import OK, main
from tools import soak


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of an original and what it is converted to, with the op library."""
    folder = tmp_path_factory.mktemp("models")
    keras_export(folder / "original")
    assert main([f"--input_dir={folder / 'original'}", f"--output_dir={folder / 'converted'}", "--nomeasure",
                 "--buckets=batch=1,3", "--copy_library"]) == OK
    return folder


def run(models: Path, original: str, monkeypatch: pytest.MonkeyPatch, out: Path) -> int:
    monkeypatch.setattr("sys.argv", ["soak", f"--original={models / original}", f"--converted={models / 'converted'}",
                                     "--minutes=0.05", "--clients=2", "--reload=1", "--sizes=1,3,5", f"--out={out}"])
    return soak.main()


def test_a_model_that_is_right_passes(models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(models, "original", monkeypatch, tmp_path / "soak.md") == 0
    page = (tmp_path / "soak.md").read_text()
    assert "| wrong answers | 0 |" in page
    assert "| errors | 0 |" in page


def test_wrong_answers_are_seen(models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(soak, "ATOL", -1.0)
    assert run(models, "original", monkeypatch, tmp_path / "soak.md") == 1
    assert "| wrong answers | 0 |" not in (tmp_path / "soak.md").read_text()


def test_growth_is_seen() -> None:
    def has(*megabytes: int) -> soak.Counts:
        return soak.Counts(has=[(float(i), mb << 20, 7, 1400) for i, mb in enumerate(megabytes)])

    assert not soak.grew(has(100, 700, 701, 705, 700, 702))
    assert soak.grew(has(*range(700, 1300, 10)))
