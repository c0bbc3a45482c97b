"""The programs of tools/ import each other by the names they have there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))
