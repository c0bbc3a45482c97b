from __future__ import annotations

from pathlib import Path

import pytest

from tf_stitch.convert import targets
from tf_stitch.convert.targets import CPU_LEVELS, own_level, parse_targets
from tf_stitch.errors import ConvertError
from tf_stitch.runtime import cpu_flags

V3 = "flags : fpu avx2 bmi2 fma"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(("text", "level"), [
    ("", 0), ("flags : fpu", 0), (V3, 1), (V3.replace(" fma", ""), 0), (V4, 2), (V4.replace(" avx2", ""), 0),
    (V4.replace(" avx512dq", ""), 1)])
def test_the_level_is_the_highest_all_of_whose_instructions_are_there(text: str, level: int, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{text}\n")
    monkeypatch.setattr(targets, "CPU_LEVELS", {0: "x86-64", 1: "x86-64-v3", 2: "x86-64-v4"})
    monkeypatch.setattr(cpu_flags, "Path", lambda _: tmp_path / "cpuinfo")
    assert own_level() == level


def test_targets_are_parsed_once_each(tmp_path: Path) -> None:
    cpu, gpu = parse_targets(["cpu", "cuda:sm_90", "cpu"], tmp_path)
    assert (cpu.name, cpu.on_gpu, cpu.architecture, cpu.device_type) == ("cpu", False, 0, "CPU")
    assert cpu.levels == CPU_LEVELS
    assert (gpu.name, gpu.on_gpu, gpu.architecture, gpu.device_type) == ("cuda:sm_90", True, 90, "GPU")
    assert gpu.levels == {90: "90", -90: "90"}
    assert gpu.spec.tf32
    assert not gpu.spec.warpgroup_matmuls  # wgmma is no PTX of later devices
    assert [target.name for target in parse_targets([], tmp_path)] == ["cpu"]


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:sm_", "cuda:90", "cuda:sm_9", "CPU", "cuda:sm_90x"])
def test_what_is_no_target_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=f"--target={name} is none: cpu, cuda:sm_90"):
        parse_targets(["cpu", name], tmp_path)
