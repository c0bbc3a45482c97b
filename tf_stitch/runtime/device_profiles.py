"""Which profile holds for a device of this machine: the user's own where there is one, else one that was shipped, which
is scaled to what the driver says of a GPU that it was not measured on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tf_stitch.device.default_profile import default_profile
from tf_stitch.device.profile import VERSION, DeviceProfile, device_key, read_profile
from tf_stitch.device.spec import CPU, H200, DeviceSpec, cpu_spec, gpu_spec
from tf_stitch.errors import BuildError, ProfileError
from tf_stitch.runtime.device_query import compute_capability, cpu_count, cpu_name, driver_facts, gpu_name


def own_profile_path(cache_dir: Path, target: str, ordinal: int = 0) -> Path:
    """Where `tools/calibrate` puts the profile of a device.

    Raises:
        BuildError: there is no such GPU.
    """
    return cache_dir / "profiles" / f"{machine_key(target, ordinal)}.v{VERSION}.json"


def measured_times_path(cache_dir: Path, target: str, ordinal: int = 0) -> Path:
    """Where measured times of a device's kernels are kept.

    Raises:
        BuildError: there is no such GPU.
    """
    return cache_dir / "measured" / f"{machine_key(target, ordinal)}.json"


def machine_key(target: str, ordinal: int) -> str:
    """Names what is measured on a device: its model, and the number of a CPU's cores.

    Raises:
        BuildError: there is no such GPU.
    """
    return device_key(gpu_name(ordinal)) if target == "cuda" else device_key(f"{cpu_name()} {cpu_count()} cores")


def tuned_templates_path(cache_dir: Path, target: str, ordinal: int = 0) -> Path:
    """Where the templates that tuning found for a device are kept.

    Raises:
        BuildError: there is no such GPU.
    """
    return cache_dir / "templates" / f"{machine_key(target, ordinal)}.json"


def measured_fusions_path(cache_dir: Path, target: str, ordinal: int = 0) -> Path:
    """Where it is kept how fast kernels of a device are that share blocks.

    Raises:
        BuildError: there is no such GPU.
    """
    return cache_dir / "fusions" / f"{machine_key(target, ordinal)}.json"


@lru_cache(maxsize=16)
def device_spec(cache_dir: Path | None, ordinal: int | None) -> DeviceSpec:
    """A device of this machine.

    Args:
        cache_dir: where the user's own profiles are; None: by the shipped ones.
        ordinal: of the GPU; None is the CPU.

    Raises:
        BuildError: there is no such GPU.
        ProfileError: the user's own profile is damaged.
    """
    own = None if cache_dir is None else _own(own_profile_path(cache_dir, "cpu" if ordinal is None else "cuda",
                                                               ordinal or 0))
    if ordinal is None:
        return cpu_spec(own or CPU.profile, cpu_count())
    return gpu_spec(own or _unmeasured(ordinal), compute_capability(ordinal))


def _unmeasured(ordinal: int) -> DeviceProfile:
    """The profile of a GPU that the user did not calibrate."""
    name = gpu_name(ordinal)
    if name == H200.profile.made["gpu"]:
        return H200.profile
    return default_profile(name, driver_facts(ordinal), H200.profile)


def host_profile(cache_dir: Path) -> DeviceProfile:
    """The profile of this machine's CPU: the shipped one where the user's own is damaged."""
    return _profile(cache_dir, None, CPU)


@lru_cache(maxsize=16)
def profiles(cache_dir: Path) -> Mapping[str, DeviceProfile]:
    """The profiles of this machine's "CPU" and "GPU", for what is decided before a device is asked: a shipped one where
    there is no such GPU, or where the user's own profile is damaged (whoever builds kernels says so)."""
    return {"CPU": host_profile(cache_dir), "GPU": _profile(cache_dir, 0, H200)}


def _profile(cache_dir: Path, ordinal: int | None, shipped: DeviceSpec) -> DeviceProfile:
    try:
        return device_spec(cache_dir, ordinal).profile
    except (BuildError, ProfileError):
        return shipped.profile


def _own(path: Path) -> DeviceProfile | None:
    return read_profile(path) if path.exists() else None
