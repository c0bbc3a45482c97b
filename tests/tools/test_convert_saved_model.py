"""The script of a clone runs as docs/converting.md says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tf_stitch.config import plain_environment

ROOT = Path(__file__).resolve().parents[2]


def test_the_script_runs_by_its_path(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "convert_saved_model.py"), "--help"], cwd=tmp_path,
                          env=plain_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--input_dir" in done.stdout
