"""Whether a new profile predicts a few kernels that it was not made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.device.profile import DeviceProfile
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ProfileError
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.runtime.device_run import time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tools.benchmark.subgraphs import SUBGRAPHS
from tools.calibrate.kernels import program_of

SIZES = ((64, 512), (4096, 256), (16384, 1024))
KINDS = ("layernorm 131072x1024", "softmax 131072x1024", "bias gelu 65536x4096", "row sum 7500000x32")
FARTHEST = 3.0
"""Median factor between prediction and measurement beyond which a profile is refused: the machine was busy."""


def check_errors(device: DeviceSpec, profile: DeviceProfile, cache: KernelCache) -> Iterator[str]:
    """A line for every kernel: measured and predicted.

    Raises:
        ProfileError: the predictions are far off.
    """
    device = replace(device, profile=profile, processors=device.processors if device.simt else 1)
    graphs = [s.resized(*size) for s in SUBGRAPHS if s.name in KINDS for size in SIZES]
    programs = [program_of([node for _, node in graph.graph().outputs], device) for graph in graphs]
    source, kernels = timed_kernels(programs, device)
    if device.simt:
        times = time_on_device(build_cuda(source, device.architecture, cache), kernels)
    else:
        times = time_on_host(build_host(with_timer(source), device.architecture, cache), kernels)
    factors = []
    for graph, program, measured in zip(graphs, programs, times, strict=True):
        predicted = predict_us(program, device)
        factors.append(max(predicted / measured, measured / predicted))
        name = graph.name.rpartition(" ")[0]
        yield f"{name} {graph.rows}x{graph.columns}: measured {measured:.2f} us, predicted {predicted:.2f}"
    if median(factors) > FARTHEST:
        raise ProfileError("the predictions are far from what was measured; was the machine busy? calibrate again")
