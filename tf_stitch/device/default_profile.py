"""The profile of a GPU that nobody has measured: the shipped one, scaled by what the driver says of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from tf_stitch.device.matmul_times import MatmulTimes
from tf_stitch.device.profile import Curve, DeviceProfile


@dataclass(frozen=True)
class DriverFacts:
    """What the CUDA driver says of a GPU; 0: it does not.

    Attributes:
        processors: streaming multiprocessors.
        clock_mhz: of these.
        memory_gbps: by the memory's clock and the width of its bus.
        cache_bytes: of the last cache.
        shared_bytes: that one block may ask for.
    """

    processors: int
    clock_mhz: float
    memory_gbps: float
    cache_bytes: int
    shared_bytes: int


def default_profile(name: str, here: DriverFacts, shipped: DeviceProfile) -> DeviceProfile:
    """Arithmetic and the last cache are taken to be as fast as processors and their clock allow, memory as its bus.
    Launches and barriers take what they do on the device of the shipped profile."""
    there = facts_of(shipped.made)
    here = DriverFacts(*(own or other for own, other in zip(astuple(here), astuple(there), strict=True)))
    chip = here.processors * here.clock_mhz / (there.processors * there.clock_mhz)
    memory = here.memory_gbps / there.memory_gbps
    caches = here.cache_bytes, there.cache_bytes
    return replace(
        shipped, name=name, processors=here.processors, cache_bytes=here.cache_bytes, shared_bytes=here.shared_bytes,
        bandwidth=_scaled(shipped.bandwidth, caches, chip, memory),
        gather=_scaled(shipped.gather, caches, chip, memory),
        latency=tuple((x * here.cache_bytes / there.cache_bytes, us) for x, us in shipped.latency),
        rates=tuple((dtype, tuple((op, rate * chip) for op, rate in ops)) for dtype, ops in shipped.rates),
        matmuls=tuple((dtype, _few_rows(times, shipped.launch_us, memory)) for dtype, times in shipped.matmuls),
        matmul_rates=tuple((dtype, tuple((row, rate * chip) for row, rate in known))
                           for dtype, known in shipped.matmul_rates),
        numbers=(), made={"gpu": name, "driver facts": asdict(here), "scaled from": shipped.name})


def facts_of(made: Mapping[str, Any]) -> DriverFacts:
    """What the driver said of the GPU that a profile was made on."""
    return DriverFacts(**made["driver facts"])


def _few_rows(times: MatmulTimes, launch_us: float, memory: float) -> MatmulTimes:
    """Matmuls of few rows, which wait for memory, as many times as fast."""
    return MatmulTimes(times.axes, tuple(launch_us + (us - launch_us) / memory for us in times.us))


def _scaled(curve: Curve, caches: tuple[int, int], inside: float, beyond: float) -> Curve:
    """Rates over bytes, for a cache of another size: what fits this one is as fast as in the other, or as at its end.
    Processors get no more from memory than from the cache.

    Args:
        caches: bytes of this device's, and of that one's on which the curve was measured.
        inside, beyond: factors of what fits the cache and of what does not.
    """
    here, there = caches
    cached, rest = [y for x, y in curve if x <= there], [y for x, y in curve if x > there]
    most = inside * max(cached)
    return tuple((x, inside * (y if x <= there else cached[-1]) if x <= here else
                  min(beyond * (y if x > there else rest[0]), most)) for x, y in curve)
