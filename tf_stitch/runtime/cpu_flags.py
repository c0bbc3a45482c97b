"""What instructions this machine's processor has."""

from __future__ import annotations

from pathlib import Path


def cpu_flags() -> frozenset[str]:
    """Names as Linux gives them, such as "avx2"; none where it does not say, and on ARM."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))
