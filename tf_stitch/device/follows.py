"""What numbers of a device profile follow: quantities that calibration measures on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_stitch.device.profile import DeviceProfile


def launch_us(profile: DeviceProfile) -> float:
    return profile.launch_us


def op_us(profile: DeviceProfile) -> float:
    return profile.op_us


def memory_gbps(profile: DeviceProfile) -> float:
    """Of what no cache holds."""
    return profile.bandwidth[-1][1]


def memory_us(profile: DeviceProfile) -> float:
    """Moving a fixed number of bytes that no cache holds."""
    return 1 / memory_gbps(profile)


def processor_gbps(profile: DeviceProfile) -> float:
    """What a processor gets from the last cache."""
    return max(gbps for _, gbps in profile.bandwidth) / profile.processors


def trip_us(profile: DeviceProfile) -> float:
    """A load from memory."""
    return profile.latency[-1][1]


def trip_bytes(profile: DeviceProfile) -> float:
    """What memory moves while a load waits."""
    return memory_gbps(profile) * trip_us(profile)


def launch_bytes(profile: DeviceProfile) -> float:
    """What memory moves during a launch."""
    return memory_gbps(profile) * profile.launch_us


def cached_launch_bytes(profile: DeviceProfile) -> float:
    """What a processor gets from the last cache during a launch."""
    return processor_gbps(profile) * profile.launch_us


def barrier_us(profile: DeviceProfile) -> float:
    """Of all blocks of a grid."""
    return profile.barrier[0][1]


def additions(profile: DeviceProfile) -> float:
    """10^9 a second, of the whole device."""
    return profile.rate("float32", "add", 1)


def additions_a_byte(profile: DeviceProfile) -> float:
    """While memory moves one."""
    return additions(profile) / memory_gbps(profile)


def processor_additions(profile: DeviceProfile) -> float:
    """Of one processor."""
    return additions(profile) / profile.processors


def tensor_rate(profile: DeviceProfile) -> float | None:
    """10^9 multiplications a second of the device's tensor cores, if a library's large matmuls were measured."""
    known = dict(profile.matmul_rates).get("float16")
    return max(rate for _, rate in known) if known else None


def tensor_us(profile: DeviceProfile) -> float | None:
    """A fixed number of multiplications by all tensor cores."""
    rate = tensor_rate(profile)
    return 1 / rate if rate else None


def processor_tensor_rate(profile: DeviceProfile) -> float | None:
    """Of one processor's."""
    rate = tensor_rate(profile)
    return rate / profile.processors if rate else None


def processor_tensor_ns(profile: DeviceProfile) -> float | None:
    """A fixed number of multiplications by one processor's."""
    rate = processor_tensor_rate(profile)
    return 1 / rate if rate else None
