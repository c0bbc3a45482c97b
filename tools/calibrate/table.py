"""A profile for people."""

from __future__ import annotations

from tf_stitch.device.matmul_times import MatmulTimes
from tf_stitch.device.profile import DeviceProfile


def table(profile: DeviceProfile) -> str:
    """A profile for people."""
    lines = [f"{profile.name} ({profile.target}), {profile.processors} processors",
             *(f"  {key}: {value}" for key, value in profile.made.items()),
             f"launch {profile.launch_us} us, op {profile.op_us} us, handover {profile.handover_us} us, "
             f"vector loop {profile.loop_us} us, wave {profile.wave_us} us",
             f"last cache {profile.cache_bytes} bytes, shared memory {profile.shared_bytes} bytes, "
             f"memory of all cores / one {profile.all_cores}"]  # fmt: skip
    curves = (("bandwidth, GB/s", profile.bandwidth), ("gather, 10^9 elements/s", profile.gather),
              ("latency, us", profile.latency))  # fmt: skip
    for name, curve in curves:
        lines += [f"{name}:", *(f"  {_bytes(x):>9} {y:10.4g}" for x, y in curve)]
    if profile.reduction:
        lines += ["reduction over threads, us:", *(f"  {x:>9g} {y:10.4g}" for x, y in profile.reduction)]
    if profile.barrier:
        lines += ["barrier of a grid over blocks, us:", *(f"  {x:>9g} {y:10.4g}" for x, y in profile.barrier)]
    for dtype, ops in profile.rates:
        lines += [f"{dtype}, 10^9 ops/s:", *(f"  {op:>12} {rate:10.4g}" for op, rate in ops)]
    for dtype, times in profile.matmuls:
        lines += [f"{dtype} matmuls, us:", *(_squares(times) or _few_rows(times))]
    lines += ["numbers of this device alone; others follow:",
              *(f"  {name} {one.value:g} {one.unit} ({one.measured})" for name, one in profile.numbers)]
    return "\n".join(lines)


def _squares(times: MatmulTimes) -> list[str]:
    """Of square matrices, in each batch."""
    batches, sizes = times.axes[0], sorted(set(times.axes[1]).intersection(*times.axes[2:]))
    return [f"  {b:>4} x {n}^3 {times.at((b, n, n, n)):10.4g}" for b in batches for n in sizes]


def _few_rows(times: MatmulTimes) -> list[str]:
    """Of square matrices with few rows, in each batch."""
    batches, rows = times.axes[:2]
    sizes = sorted(set(times.axes[2]).intersection(times.axes[3]))
    return [f"  {b:>4} x [{m},{n}] [{n},{n}] {times.at((b, m, n, n)):10.4g}"
            for b in batches for m in rows for n in sizes]  # fmt: skip


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:g} {unit}"
        n /= 1024
    return f"{n:g} GiB"
