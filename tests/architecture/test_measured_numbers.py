"""Numbers that were measured on a device are in its profile (tf_stitch/device/), where another device has others."""

from __future__ import annotations

import pytest

from tools.structure import ModuleNumber, all_module_numbers, module_numbers

PARTS = ("families", "planning", "passes", "lowering", "schedule", "compiler", "kernel_ir", "libraries", "placement")
LISTED = {
    # Tilings of kernels, chosen by trying on an H200: no formula is known, and tuning tries others on any device.
    "families.attention": ("LEAST_REGISTERS", "OWN_REGISTERS", "QUERY_WARPS"),
    "families.attention_gradient": ("WARPS", "TILE", "LARGE_TILE"),
    "families.matmul_tiles": ("STAGES", "COMPUTED_STAGES", "MOST_STAGES"),
    "families.warpgroup_tiles": ("WARPGROUP_TILES",),
    "families.row.on_chip_rows": ("THREADS", "REGISTERS", "RESIDENT", "BLOCKS"),
    "schedule.few_blocks": ("MOST_TOGETHER", "LEAST_STEPS"),
    "compiler.early_weights": ("OTHERS",),  # registers, by compilers
    "kernel_ir.cost": ("INLINE_CYCLES",),  # in sources of kernels, which run on machines that are not known
    # Policies and tolerances in microseconds or bytes: how much is noise, or may be spent.
    "compiler.cooperative_fusion": ("GRAPH_LAUNCHES",),
    "compiler.pattern_compiler": ("MOST_COPIES",),
    "compiler.program_times": ("LARGEST",),
    "placement.arena": ("PARTS",),
    "planning.measured_cost": ("MARGIN", "LEAST_US"),
    "planning.memory_greedy": ("LEAST_US",),
    "planning.selection": ("NEGLIGIBLE",),
}
"""Module -> numbers that stay in code though their docstrings speak of measurements."""


def test_numbers_that_were_measured_are_in_profiles() -> None:
    numbers = all_module_numbers()
    claimed = {name for part in PARTS for one in numbers[part] if one.claimed for name in one.names}
    listed = {f"{module}.{name}" for module, names in LISTED.items() for name in names}
    assert claimed == listed, "measured on a device: declare it in tf_stitch/device/*_numbers.py, or list it here"


@pytest.mark.parametrize(("text", "found"), [
    ('A = 3\n"""An H200 took 4 us."""\n', [("m.A", True)]),
    ('A = 3\n"""Of a block."""\n', [("m.A", False)]),
    ('A, B = 3, 4\n"""Measured."""\n', [("m.A m.B", True)]),
    ('A = 1 << 4\nB = {1: (2, 3)}\n"""On an H200."""\nC = 5\n', [("m.A m.B", True), ("m.C", False)]),
    ('A: int = 3\nx = 4\n', [("m.A m.x", False)]),
    ('A = "3 us"\nB = True\nC = f(3)\ndef f() -> int:\n    D = 3\n    """On an H200."""\n', [])])
def test_what_is_found(text: str, found: list[tuple[str, bool]]) -> None:
    assert [(" ".join(one.names), one.claimed) for one in module_numbers("m", text)] == found
    assert all(isinstance(one, ModuleNumber) for one in module_numbers("m", text))
