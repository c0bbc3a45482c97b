"""The script of a release names the versions whose exported symbols are known."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tools.exported_symbols import WHEELS

SCRIPT = Path(__file__).parents[2] / "tools" / "release.sh"


def test_each_version_gets_a_wheel() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    found = re.search(r"versions=\(([\d. ]+)\)", SCRIPT.read_text())
    assert found is not None
    assert found[1].split() == list(dict.fromkeys(wheel.partition("==")[2] for wheel in WHEELS))


def test_the_name_is_that_of_the_project() -> None:
    """PyPI has another project named tf-stitch: a new name is one line of pyproject.toml."""
    text = SCRIPT.read_text()
    [line] = [line for line in text.splitlines() if line.startswith("name=")]
    said = subprocess.run(["bash", "-c", f'root="{SCRIPT.parents[1]}"\n{line}\necho "$name"'], capture_output=True,
                          text=True, check=True)
    assert said.stdout == "tf_stitch\n"
    assert not re.search(r"tf_stitch-|packages. tf_stitch", text)
