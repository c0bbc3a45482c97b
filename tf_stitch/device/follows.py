"""What numbers of a device profile follow: quantities that calibration measures on every device."""

from __future__ import annotations

from typing import Protocol, TypeAlias

Points: TypeAlias = tuple[tuple[float, float], ...]


class Calibrated(Protocol):
    """What a profile says of every device (see DeviceProfile)."""

    @property
    def processors(self) -> int: ...
    @property
    def launch_us(self) -> float: ...
    @property
    def op_us(self) -> float: ...
    @property
    def bandwidth(self) -> Points: ...
    @property
    def latency(self) -> Points: ...
    @property
    def barrier(self) -> Points: ...
    @property
    def matmul_rates(self) -> tuple[tuple[str, tuple[tuple[int, float], ...]], ...]: ...

    def rate(self, dtype: str, op: str, cost: float) -> float:
        """10^9 ops a second."""


def launch_us(profile: Calibrated) -> float:
    """Microseconds of a launch."""
    return profile.launch_us


def op_us(profile: Calibrated) -> float:
    """Microseconds of one more op in TensorFlow's executor."""
    return profile.op_us


def memory_gbps(profile: Calibrated) -> float:
    """10^9 bytes a second of memory that no cache holds."""
    return profile.bandwidth[-1][1]


def memory_us(profile: Calibrated) -> float:
    """Time for a fixed number of bytes that no cache holds."""
    return 1 / memory_gbps(profile)


def processor_gbps(profile: Calibrated) -> float:
    """10^9 bytes a second that a processor gets from the last cache."""
    return max(gbps for _, gbps in profile.bandwidth) / profile.processors


def trip_us(profile: Calibrated) -> float:
    """Microseconds of a load from memory."""
    return profile.latency[-1][1]


def trip_bytes(profile: Calibrated) -> float:
    """What memory moves while a load from it waits."""
    return memory_gbps(profile) * trip_us(profile)


def launch_bytes(profile: Calibrated) -> float:
    """What memory moves during a launch."""
    return memory_gbps(profile) * profile.launch_us


def barrier_us(profile: Calibrated) -> float:
    """Microseconds in which all blocks of a grid wait for each other."""
    return profile.barrier[0][1]


def additions(profile: Calibrated) -> float:
    """10^9 additions a second of the whole device."""
    return profile.rate("float32", "add", 1)


def additions_a_byte(profile: Calibrated) -> float:
    """Additions in the time in which memory moves a byte."""
    return additions(profile) / memory_gbps(profile)


def tensor_rate(profile: Calibrated) -> float | None:
    """10^9 multiplications a second of the device's tensor cores, if a library's large matmuls were measured."""
    known = dict(profile.matmul_rates).get("float16")
    return max(rate for _, rate in known) if known else None


def tensor_us(profile: Calibrated) -> float | None:
    """Time for a fixed number of multiplications by all tensor cores."""
    rate = tensor_rate(profile)
    return 1 / rate if rate else None


def processor_tensor_rate(profile: Calibrated) -> float | None:
    """10^9 multiplications a second of a processor's tensor cores."""
    rate = tensor_rate(profile)
    return rate / profile.processors if rate else None


def processor_tensor_ns(profile: Calibrated) -> float | None:
    """Time for a fixed number of multiplications by a processor's tensor cores."""
    rate = processor_tensor_rate(profile)
    return 1 / rate if rate else None
