"""The results of `dram_traffic.py` and `small_kernels.py` as figures and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tools.benchmark.raw_rows import MOST_ROWS

LARGE = 1 << 20
"""Bytes; what kernels of less move is noise for DRAM counters."""
TRAFFIC_LIMIT = 1.1
SLACK_US = 1.0
"""What a small kernel may take more than an empty one and its traffic."""

Row = Mapping[str, Any]


def traffic_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """How many kernels move more than they should; small ones apart."""
    ratios = [row["ratio"] for row in rows if row["expected"] >= LARGE]
    return {"kernels": len(rows), "small": len(rows) - len(ratios), "large": len(ratios),
            "large_within_10_percent": sum(ratio <= TRAFFIC_LIMIT for ratio in ratios),
            "largest_ratio": max(ratios, default=None),
            "median_ratio": median(ratios) if ratios else None}  # fmt: skip


def traffic_result(s: Mapping[str, Any]) -> str:
    """The summary in a sentence."""
    largest = f"; median ratio {s['median_ratio']:.3f}, largest {s['largest_ratio']:.2f}" if s["large"] else ""
    return (f"{s['large_within_10_percent']} of {s['large']} kernels that move 1 MiB or more move at most 10 % more "
            f"than expected{largest}; {s['small']} smaller ones apart")


def traffic_table(document: Mapping[str, Any]) -> str:
    """Markdown; large kernels first, the greatest ratio on top."""
    s, machine = document["summary"], _words(document["machine"])
    lines = ["# DRAM traffic of kernels", "", machine, "", f"Made by `{document['command']}`.", "",
             "Expected: bytes of inputs, outputs and scratch, each element once in each direction. Measured: bytes "
             "read from DRAM by one launch (dram__bytes_read), and those written to DRAM (dram__bytes_write) by it and "
             "by a kernel behind it that reads other memory until the cache has written what it held; of that no more "
             "than the launch stored into the cache (lts__t_sectors_srcunit_tex_op_write). Such a kernel runs before "
             f"it, too, so that nothing is warm. The {MOST_ROWS} with the largest measured / expected.", "",
             f"{s['kernels']} kernels, equal ones once: {traffic_result(s)}.", "",
             _traffic_rows([row for row in document["kernels"] if row["expected"] >= LARGE]), "",
             f"## Small kernels: {s['small']} of less than 1 MiB", "",
             "Counters of whole 32-byte sectors and of what else runs on the device are noise here.", "",
             _traffic_rows([row for row in document["kernels"] if row["expected"] < LARGE])]  # fmt: skip
    lines += [f"\nNot measured: {reason}" for reason in document["left_out"]]
    return "\n".join(lines) + "\n"


def _traffic_rows(rows: Sequence[Row]) -> str:
    lines = ["| kernel | expected KB | read KB | written KB | written later KB | measured / expected |",
             "| --- " * 6 + "|"]  # fmt: skip
    lines += [f"| {r['name']} | {r['expected'] / 1e3:.1f} | {r['read'] / 1e3:.1f} | {r['written'] / 1e3:.1f} | "
              f"{r['later'] / 1e3:.1f} | {r['ratio']:.2f} |"
              for r in sorted(rows, key=lambda r: -r["ratio"])[:MOST_ROWS]]  # fmt: skip
    return "\n".join(lines)


def small_summary(rows: Sequence[Row], empty_us: float) -> dict[str, Any]:
    """How many of the small kernels are within the limit."""
    excess = [row["excess_us"] for row in rows]
    return {"kernels": len(rows), "empty_us": empty_us, "within_1_us": sum(e <= SLACK_US for e in excess),
            "median_excess_us": median(excess), "largest_excess_us": max(excess)}  # fmt: skip


def small_result(s: Mapping[str, Any]) -> str:
    """The summary in a sentence."""
    return (f"{s['within_1_us']} of {s['kernels']} kernels within 1 us of the floor; median excess "
            f"{s['median_excess_us']:.2f} us, largest {s['largest_excess_us']:.2f}")


def small_table(document: Mapping[str, Any]) -> str:
    """Markdown, the greatest excess on top."""
    s = document["summary"]
    lines = ["# Small kernels", "", _words(document["machine"]), "", f"Made by `{document['command']}`.", "",
             "Kernels whose buffers are less than 1 MiB together, each as a node of a CUDA graph of its like: "
             "microseconds a node. Floor: a node that does nothing, and the kernel's bytes at the bandwidth of a "
             "copy. Excess: the difference.", "",
             f"An empty kernel takes {s['empty_us']:.2f} us. {small_result(s)}. The {MOST_ROWS} "
             "with the largest excess:", "",
             "| kernel | bytes | floor us | measured us | excess us |", "| --- " * 5 + "|"]  # fmt: skip
    lines += [f"| {r['name']} | {r['moved']} | {r['floor_us']:.2f} | {r['us']:.2f} | {r['excess_us']:.2f} |"
              for r in sorted(document["kernels"], key=lambda r: -r["excess_us"])[:MOST_ROWS]]  # fmt: skip
    return "\n".join(lines) + "\n"


def _words(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in machine.items()) + "."
