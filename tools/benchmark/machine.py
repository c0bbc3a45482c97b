"""Where and with what a measurement was made."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path

PACKAGES = ("tensorflow", "keras", "numpy")


def describe_cpu() -> dict[str, object]:
    """Processor, cores, load, versions and date."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return {
        "cpu": next(names, platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "compiler": compiler[0] if compiler else "none",
        **{name: metadata.version(name) for name in PACKAGES},
        "date": time.strftime("%Y-%m-%d"),
    }


def describe_gpu() -> dict[str, object]:
    """The first GPU and its driver; nothing where there is none."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {}
    name, _, driver = lines[0].partition(", ")
    return {"gpu": name, "driver": driver}


def describe_cuda() -> dict[str, object]:
    """The current GPU as CuPy sees it, versions and date."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {"gpu": properties["name"].decode(), "processors": properties["multiProcessorCount"],
            "driver": cupy.cuda.runtime.driverGetVersion(), "cupy": cupy.__version__,
            "date": time.strftime("%Y-%m-%d")}  # fmt: skip


def commit() -> str:
    """Of this tree; "" where it is not one of git's."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def module_path(root: Path) -> str:
    """PYTHONPATH of a process that uses the package at `root`, and what this process finds by it."""
    return os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
