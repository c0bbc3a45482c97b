"""What the compiler says that a launch takes: its log (ptxas -v), read, and kept beside the cubin."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tf_stitch.atomic_file import read_verified
from tf_stitch.errors import DamagedFileError

_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>\w+)'(?P<facts>.*?Used \d+ registers[^\n]*)", re.DOTALL)
_FACTS = {"registers": r"Used (\d+) registers", "stack_bytes": r"(\d+) bytes stack frame",
          "stored": r"(\d+) bytes spill stores", "loaded": r"(\d+) bytes spill loads", "static": r"(\d+) bytes smem"}


@dataclass(frozen=True)
class KernelResources:
    """What one launch takes.

    Attributes:
        registers: of a thread.
        spilled_bytes: of a thread's registers, what has to live in memory: stored or loaded again, the greater.
        stack_bytes: of a thread, spilled or indexed by numbers that are not known.
        static_shared_bytes: of a block, beside what its launch asks for.
    """

    registers: int
    spilled_bytes: int
    stack_bytes: int
    static_shared_bytes: int


def read_log(log: str) -> dict[str, KernelResources]:
    """Resources by symbol; empty where the compiler says nothing of them."""
    found: dict[str, KernelResources] = {}
    for entry in _ENTRY.finditer(log):
        facts = {name: int(m[1]) if (m := re.search(pattern, entry["facts"])) else 0
                 for name, pattern in _FACTS.items()}
        found[entry["symbol"]] = KernelResources(facts["registers"], max(facts["stored"], facts["loaded"]),
                                                 facts["stack_bytes"], facts["static"])
    return found


def write(resources: dict[str, KernelResources]) -> bytes:
    """As JSON."""
    return json.dumps({symbol: asdict(r) for symbol, r in resources.items()}).encode()


def read(path: Path) -> dict[str, KernelResources]:
    """What `write` gave; empty where it is lost or damaged: nothing but the report needs it."""
    try:
        return {symbol: KernelResources(**facts) for symbol, facts in json.loads(read_verified(path)).items()}
    except (OSError, DamagedFileError, ValueError, TypeError, AttributeError):
        return {}
