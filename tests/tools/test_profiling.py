"""Counters of kernels: what Nsight Compute prints, what is exported for it, and the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tools.cost_report.cases import Cases, of_kernels
from tools.cost_report.exported import export, load, target_of
from tools.dram_traffic import SWEEP_BEHIND, match, row
from tools.profiling.counters import Counted, ProfilerError, parse
from tools.profiling.tables import small_summary, small_table, traffic_result, traffic_summary, traffic_table

HEAD = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"')  # fmt: skip
COUNTERS = {"dram__bytes_read.sum": ("byte", "4,194,304"), "dram__bytes_write.sum": ("byte", "1,024"),
            "lts__t_sectors_srcunit_tex_op_write.sum": ("sector", "131,072")}  # fmt: skip


def line(number: int, kernel: str, metric: str, unit: str, value: str) -> str:
    return (f'"{number}","77","python3.12","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0",'
            f'"Command line profiler metrics","{metric}","{unit}","{value}"')  # fmt: skip


def log(**changed: tuple[str, str]) -> list[str]:
    """What ncu prints of two launches."""
    counters = COUNTERS | {f"{name}.sum": value for name, value in changed.items()}
    rows = [line(i, f"launch_{i}", metric, *value) for i in (0, 1) for metric, value in counters.items()]
    return ["==PROF== Connected to process 77 (/usr/bin/python3)", '==PROF== Profiling "launch_0": 0%....100% - 1 pass',
            "==PROF== Disconnected from process 77", HEAD, *rows]  # fmt: skip


def test_each_launch_has_its_counters() -> None:
    assert parse(log()) == [Counted(f"launch_{i}", 4 << 20, 1024, 4 << 20) for i in (0, 1)]


@pytest.mark.parametrize(("lines", "message"), [
    (log(dram__bytes_read=("Mbyte", "4.19")), "'Mbyte', not in 'byte'"),
    (log(dram__bytes_write=("byte", "n/a")), "'n/a' where a number belongs"),
    (log()[:-1], "no lts__t_sectors_srcunit_tex_op_write.sum"),
    (["==ERROR== ERR_NVGPUCTRPERM"], "no dram__bytes_read.sum"),
])  # fmt: skip
def test_what_is_no_count_is_an_error(lines: list[str], message: str) -> None:
    with pytest.raises(ProfilerError, match=message):
        parse(lines)


def softmax_case() -> Cases:
    graph = region("softmax", [p.softmax(p.B.input("x:0", DType.F32, (512, 1024)))])
    return of_kernels("peers", "softmax", compiled(graph, H200, solver="greedy").kernels, H200)


def test_kernels_come_back_from_their_folder(tmp_path: Path) -> None:
    found = softmax_case()
    (tmp_path / "built").write_bytes(b"cubin")
    export(found.cases, [tmp_path / "built"], "cuda", tmp_path / "out")
    [kernel] = load(tmp_path / "out")
    [case] = found.cases
    assert target_of(tmp_path / "out") == "cuda"
    assert kernel.kernel == case.kernel
    assert kernel.binary.read_bytes() == b"cubin"
    assert (kernel.key, kernel.moved) == (case.key, 2 * 4 * 512 * 1024)
    assert kernel.name == "peers: softmax, row_reduction 512x1024"


def test_what_the_cache_writes_later_counts(tmp_path: Path) -> None:
    (tmp_path / "built").write_bytes(b"")
    export(softmax_case().cases, [tmp_path / "built"], "cuda", tmp_path)
    kernels = load(tmp_path)
    own = Counted(kernels[0].kernel.symbol, 2 << 20, 1 << 20, 2 << 20)
    behind = Counted(SWEEP_BEHIND, 512 << 20, 1 << 20, 0)
    [found] = match(kernels, [own, behind])
    assert row(*found)["ratio"] == 1.0
    noise = replace(behind, written=3 << 20)
    assert row(kernels[0], own, noise)["later"] == own.stored
    for wrong in ([replace(own, kernel="launch_99"), behind], [behind, own], [own]):
        with pytest.raises(ProfilerError, match="other kernels"):
            match(kernels, wrong)


def test_tables_keep_small_kernels_apart() -> None:
    def kernel(name: str, expected: int, ratio: float) -> dict[str, object]:
        return {"name": name, "expected": expected, "ratio": ratio, "read": 1, "written": 1, "later": 1}

    rows = [kernel("good", 1 << 21, 1.05), kernel("bad", 1 << 22, 1.5), kernel("tiny", 100, 9.0)]
    summary = traffic_summary(rows)
    assert summary == {"kernels": 3, "small": 1, "large": 2, "large_within_10_percent": 1, "largest_ratio": 1.5,
                       "median_ratio": 1.275}  # fmt: skip
    assert traffic_result(summary).startswith("1 of 2 kernels")
    document = {"command": "x", "machine": {"gpu": "y"}, "summary": summary, "left_out": ["200 kernels: no time"],
                "kernels": rows}  # fmt: skip
    text = traffic_table(json.loads(json.dumps(document)))
    assert text.index("| bad") < text.index("| good") < text.index("## Small kernels") < text.index("| tiny")
    assert "Not measured: 200 kernels: no time" in text
    assert traffic_summary(rows[2:])["largest_ratio"] is None


def test_small_kernels_are_held_against_an_empty_one() -> None:
    rows = [{"name": name, "moved": 100, "us": 2.0, "floor_us": 2.0 - excess, "excess_us": excess}
            for name, excess in (("quick", 0.5), ("slow", 1.5))]  # fmt: skip
    summary = small_summary(rows, 1.2)
    assert (summary["within_1_us"], summary["largest_excess_us"]) == (1, 1.5)
    text = small_table({"command": "x", "machine": {"gpu": "y"}, "summary": summary, "kernels": rows})
    assert text.index("| slow") < text.index("| quick")
