"""What programs give in plain TensorFlow, kept for other test processes and later runs: no commit of tf_stitch changes
it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.support.fork_server import AT_IMPORT
from tests.support.shared_cache import kept, text_of
from tf_stitch.atomic_file import read_verified

ROOT = Path(__file__).parents[2]
OUT = "{OUT}"
"""In the place of the path of the file that a program writes."""
SHARED = (ROOT / "tests" / "graph" / "loops" / "loop_functions.py",)
"""What programs import beside `models`."""
PACKAGES = ("tensorflow", "keras", "numpy", "ml-dtypes")
_OURS = re.compile(r"^(?:from|import) (tf_stitch\b[\w.]*)|^\s*(?:from|import) ((?:tests|tools)\b[\w.]*)", re.M)
"""What a program imports of ours; in a branch, tf_stitch is for runs that are not plain TensorFlow's."""
_IMPORTED = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in SHARED}


def plain_result(program: Path, arguments: tuple[object, ...], variables: Mapping[str, str],
                 run: Callable[[], bytes]) -> bytes:
    """What `run` gives, or gave of the same program, models, packages and machine.

    Args:
        program: or `-m`, of a module in `models`.
        run: must give the same each time, up to what tests allow anyway.
    """
    text = program.read_text() if program.suffix else ""
    unknown = {name for found in _OURS.findall(text) for name in found if name} - _IMPORTED
    assert not unknown, f"{program.name} imports {unknown}, whose change would not be seen: add to SHARED what it needs"
    parts = [text, *map(str, arguments), repr(sorted(variables.items())), _surroundings()]
    return read_verified(kept(parts, ".plain", run))


@cache
def _surroundings() -> str:
    """All else that a result depends on: the models' code, packages, processor, devices, settings."""
    models = text_of(*sorted((ROOT / "models").rglob("*.py")), *SHARED)
    settings = {name: value for name, value in os.environ.items() if name.startswith((*AT_IMPORT, "TF_", "CUDA_"))
                and not name.startswith(("TF_STITCH", "PYTHON"))}
    processor = re.findall(r"^(?:model name|flags)\s*:.*", Path("/proc/cpuinfo").read_text(), re.M)
    driver = Path("/proc/driver/nvidia/version")
    return "\n".join([models, *map(version, PACKAGES), *sorted(set(processor)), str(os.cpu_count()),
                      driver.read_text() if driver.exists() else "", repr(sorted(settings.items()))])
