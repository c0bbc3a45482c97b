"""What the compiler gives to launches: rows, their summary, the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.cuda import emit_cuda
from tf_stitch.emit.rendered import Packed
from tf_stitch.kernel_ir.cost import array_bytes, requested_bytes, shared_bytes
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.occupancy import launch_bound
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda, resources_of

TOGETHER = 60
"""Launches of one source."""

Launch = tuple[Program, ...]


def collect(name: str, regions: Sequence[CompiledRegion], found: dict[Launch, str]) -> None:
    """Adds the launches of regions that no region before had."""
    for region in regions:
        for launch in region.programs.values():
            found.setdefault(launch, name)


def measured(launches: Mapping[Launch, str], device: DeviceSpec, cache: KernelCache) -> list[dict[str, Any]]:
    """A row for each launch."""
    rows: list[dict[str, Any]] = []
    items = list(launches.items())
    for first in range(0, len(items), TOGETHER):
        rows += _batch(items[first : first + TOGETHER], device, cache)
    return rows


def _batch(items: Sequence[tuple[Launch, str]], device: DeviceSpec, cache: KernelCache) -> list[dict[str, Any]]:
    number: dict[Program, int] = {}
    packed = [Packed(f"launch_{i}", tuple(number.setdefault(program, len(number)) for program in launch),
                     launch_bound(launch, device)) for i, (launch, _) in enumerate(items)]  # fmt: skip
    source = emit_cuda([(f"stitch_{i}", program) for i, program in enumerate(number)], packed)
    taken = resources_of(build_cuda(source, device.architecture, cache))
    return [{
        "program": name, "grid": grid_of(launch), "threads": launch[0].threads,
        "cooperative": launch[0].cooperative, "resident": one.resident, **asdict(taken[one.name]),
        "shared_bytes": max(map(shared_bytes, launch)), "scratch_bytes": sum(map(array_bytes, launch)),
        "requested_bytes": sum(map(requested_bytes, launch)),
    } for one, (launch, name) in zip(packed, items, strict=True)]  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of all, and of each program; alloc/req (FusionStitching, Table 4) of launches with shared arrays."""
    found = {}
    for name in ["all", *dict.fromkeys(row["program"] for row in rows)]:
        mine = [row for row in rows if name in ("all", row["program"])]
        shared = [row for row in mine if row["shared_bytes"]]
        requested = sum(row["requested_bytes"] for row in shared)
        found[name] = {
            "launches": len(mine), "spilling": sum(row["spilled_bytes"] > 0 for row in mine),
            "most_registers": max(row["registers"] for row in mine),
            "most_shared_bytes": max(row["shared_bytes"] + row["static_shared_bytes"] for row in mine),
            "with_shared_arrays": len(shared),
            "alloc_req": round(sum(row["scratch_bytes"] for row in shared) / requested, 3) if requested else None,
        }  # fmt: skip
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The table for people, and the launches that spill."""
    seconds = document["seconds"]
    lines = ["# What kernels take of an H200", "",
             "Registers of a thread, bytes spilled and shared memory of a block, as NVRTC's ptxas reports them; a "
             "launch that several programs have counts for the first. alloc/req: bytes of a block's arrays over those "
             "that they would take without sharing memory, of launches with shared arrays (FusionStitching, Table 4).",
             "", f"Made by `python -m tools.kernel_resources` for sm_{document['architecture']} on "
             f"{document['date']}: planned in {seconds['plan']} s, built in {seconds['build']} s.", "",
             "| program | launches | spilling | most registers | most shared bytes | with shared arrays | alloc/req |",
             "| --- " * 7 + "|"]  # fmt: skip
    for name, row in document["summary"].items():
        ratio = "-" if row["alloc_req"] is None else f"{row['alloc_req']:.2f}"
        lines.append(f"| {name} | {row['launches']} | {row['spilling']} | {row['most_registers']} | "
                     f"{row['most_shared_bytes']} | {row['with_shared_arrays']} | {ratio} |")  # fmt: skip
    spilling = [row for row in document["launches"] if row["spilled_bytes"]]
    lines += ["", "No kernel spills." if not spilling else "Kernels that spill:", ""]
    lines += [f"- {row['program']}: {row['grid']} x {row['threads']}, {row['registers']} registers, "
              f"{row['spilled_bytes']} bytes" for row in spilling]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"
