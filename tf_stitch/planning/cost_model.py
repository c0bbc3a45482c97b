"""Predicted time of a kernel (F6 by model): a roofline with launch cost and a bandwidth that grows with size."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.kernel_ir.cost import buffer_bytes, scattered_bytes, total_cycles
from tf_stitch.kernel_ir.nodes import Program

SCATTER = 3
"""Extra times that scattered reads move their bytes; caches save them from the full eight."""


def predict_us(program: Program, device: DeviceSpec) -> float:
    """Microseconds of one launch."""
    moved = buffer_bytes(program) + SCATTER * scattered_bytes(program)
    bandwidth = device.bandwidth_gbps * 1e3 * moved / (moved + device.saturation_bytes) if moved else 1.0
    memory = moved / bandwidth
    occupancy = min(1.0, program.grid / device.processors)
    compute = total_cycles(program) / (device.cycles_per_us * max(occupancy, 1 / device.processors))
    return device.launch_us + max(memory, compute)
