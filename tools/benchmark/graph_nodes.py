"""Times what is enqueued on a GPU as nodes of a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

NODES, LAUNCHES = 100, 11
"""Nodes of a graph, and how often it is launched."""


def node_us(*calls: Callable[[], None], nodes: int = NODES, launches: int = LAUNCHES) -> float:
    """Median microseconds of what `calls` enqueue in turns, as nodes of a graph that wait for each other."""
    import cupy

    for call in calls:
        call()  # loads the kernel, which a capture does not allow
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for i in range(nodes):
            calls[i % len(calls)]()
        graph = stream.end_capture()
        graph.launch(stream)
        times = []
        for _ in range(launches):
            before, after = cupy.cuda.Event(), cupy.cuda.Event()
            before.record(stream)
            graph.launch(stream)
            after.record(stream)
            after.synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(before, after)) * 1e3 / nodes)
    return median(times)
