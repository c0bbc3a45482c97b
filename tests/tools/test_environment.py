"""Which Python the scripts make their environment with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).parents[2] / "tools" / "environment.sh"
PYTHONS = {"without_venv": "exit 1", "old": f'exec {sys.executable} -c "import sys; sys.version_info = (3, 9)\n$2"',
           "new": f'exec {sys.executable} "$@"'}


def test_the_first_that_is_new_enough_and_has_venv(tmp_path: Path) -> None:
    for name, code in PYTHONS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{code}\n")
        (tmp_path / name).chmod(0o755)

    def found(*names: str) -> str:
        code = f". {ENVIRONMENT}; pythons=({' '.join(names)}); find_python"
        return subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path).stdout.strip()

    assert found("nowhere", "./without_venv", "./old", "./new", sys.executable) == "./new"
    assert found("nowhere", "./without_venv", "./old") == ""
