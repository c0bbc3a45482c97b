"""What two GPUs take to sum, by NCCL with some numbers of blocks and by their copy engines, and what kernels lose.

In PyTorch, a process for each GPU. Prints CSV: of a sum or a copy alone, milliseconds of each size; of kernels,
what they take alone, and beside sums of 64 MB or copies that go on all the time.

    NCCL_NVLS_ENABLE=0 python -m tools.link_benchmark > benchmarks/replica_links.csv      # two GPUs, half a minute
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

BLOCKS = (2, 4, 8, 16, 32, 0)
"""Of NCCL's kernels, at most; 0: as it likes."""
SIZES = (26, 64, 155, 495)
"""Megabytes: buckets of GPT-2 and ResNet-50, the last one of GPT-2, all of its gradients."""
BESIDE = 64
TURNS = 5


def _kernels(torch: Any) -> dict[str, Any]:
    """CUDA graphs of matmuls and of additions with the sizes of a block of GPT-2."""
    x, wide = (torch.randn(4096, n, device="cuda", dtype=torch.bfloat16) for n in (768, 3072))
    up, down = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((768, 3072), (3072, 768)))

    def matmuls() -> None:
        for _ in range(40):
            y = x @ up
            y @ down
            y.t() @ x

    def additions() -> None:
        for _ in range(60):
            torch.add(wide, wide)

    graphs = {}
    for work in (matmuls, additions):
        with torch.cuda.stream(torch.cuda.Stream()):
            work()
        torch.cuda.synchronize()
        graphs[work.__name__] = graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
    return graphs


def _work(rank: int, done: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29517", rank=rank, world_size=2)
    groups = {}
    for blocks in BLOCKS:
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        if blocks:
            options.config.max_ctas, options.config.min_ctas = blocks, 1
        groups[blocks] = dist.new_group([0, 1], pg_options=options)
    buffer = torch.zeros(max(SIZES) * 250_000, device="cuda")
    graphs = _kernels(torch)
    for group in groups.values():
        dist.all_reduce(buffer[:1000], group=group)

    def timed(work: Callable[[], Any]) -> float:
        """Milliseconds, of both GPUs from the same time on."""
        dist.barrier(group=groups[0])
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))

    def sums(blocks: int, megabytes: int, count: int) -> None:
        for _ in range(count):
            dist.all_reduce(buffer[: megabytes * 250_000], group=groups[blocks])

    def beside(name: str, blocks: int) -> float:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            sums(blocks, BESIDE, 14)
        return timed_graph(name)

    def timed_graph(name: str) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graphs[name].replay()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))

    def rows() -> Iterator[tuple[Any, ...]]:
        for blocks in BLOCKS:
            for size in SIZES:
                ms = [timed(lambda b=blocks, s=size: sums(b, s, 4)) / 4 for _ in range(TURNS)]
                yield "sum", "NCCL", blocks or "", size, statistics.median(ms)
        for name in graphs:
            yield name, "alone", "", "", statistics.median(timed(graphs[name].replay) for _ in range(TURNS))
            for blocks in BLOCKS:
                ms = []
                for _ in range(TURNS):
                    timed(lambda: None)
                    ms.append(beside(name, blocks))
                yield name, "NCCL", blocks or "", BESIDE, statistics.median(ms)

    found = list(rows())
    torch.cuda.synchronize()
    if rank == 0:
        writer = csv.writer(sys.stdout)
        writer.writerow(("what", "beside", "blocks", "megabytes", "ms"))
        writer.writerows((*row, f"{ms:.4f}") for *row, ms in [*found, *_copies(torch, graphs, timed_graph)])
        done.set()
    done.wait()  # no barrier: its kernel would wait on a GPU that is measured


def _copies(torch: Any, graphs: dict[str, Any], timed_graph: Callable[[str], float]) -> Iterator[tuple[Any, ...]]:
    """Both ways at a time, by one process."""
    elements = max(SIZES) * 250_000
    here, there = ([torch.zeros(elements, device=f"cuda:{gpu}") for _ in range(2)] for gpu in range(2))
    streams = [torch.cuda.Stream(gpu) for gpu in range(2)]

    def copy(megabytes: int, count: int) -> None:
        n = megabytes * 250_000
        for _ in range(count):
            for gpu, (target, source) in enumerate(((there[0], here[0]), (here[1], there[1]))):
                with torch.cuda.device(gpu), torch.cuda.stream(streams[gpu]):
                    target[:n].copy_(source[:n], non_blocking=True)

    def synchronize() -> None:
        for gpu in range(2):
            torch.cuda.synchronize(gpu)

    def timed(megabytes: int) -> float:
        synchronize()
        begin = time.perf_counter()
        copy(megabytes, 4)
        synchronize()
        return (time.perf_counter() - begin) * 250

    for size in SIZES:
        timed(size)
        yield "copy", "both ways", "", size, statistics.median(timed(size) for _ in range(TURNS))
    for name in graphs:
        ms = []
        for _ in range(TURNS):
            synchronize()
            copy(max(SIZES), 3)
            ms.append(timed_graph(name))
        synchronize()
        yield name, "copies", "", max(SIZES), statistics.median(ms)


if __name__ == "__main__":
    import torch.multiprocessing

    torch.multiprocessing.spawn(_work, (torch.multiprocessing.get_context("spawn").Event(),), nprocs=2)
