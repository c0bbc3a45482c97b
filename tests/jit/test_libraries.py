"""Which devices' regions hold matmuls, and what becomes of a missing library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from tests.libraries.test_attention import attention_nodes, call_of
from tf_stitch.frontend.tensorflow.matmul_scope import NO_MATMULS, Matmuls
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.libraries import Libraries, words_of
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.report.report import Report
from tf_stitch.targets import registry as targets


class Native:
    """Says what loading libraries came to."""

    def __init__(self, missing: str, cudnn_missing: str = "", nccl_missing: str = "", version: int = 91900) -> None:
        self.version = version
        self.missing, self.cudnn_missing, self.nccl_missing = missing, cudnn_missing, nccl_missing
        self.asked = self.asked_for_cudnn = self.asked_for_nccl = 0
        self.tried: list[tuple[int, list[int]]] = []

    def load_cublas_lt(self, files: Sequence[str]) -> str:
        self.asked += 1
        return self.missing

    def load_cudnn(self, files: Sequence[str]) -> str:
        self.asked_for_cudnn += 1
        return self.cudnn_missing

    def cudnn_version(self) -> int:
        return self.version

    def try_calls(self, device: int, words: list[int]) -> str:
        self.tried.append((device, words))
        return self.cudnn_missing

    def load_nccl(self, files: Sequence[str]) -> str:
        self.asked_for_nccl += 1
        return self.nccl_missing


def libraries(scope: str, native: Native | None, report: Report) -> Libraries:
    return Libraries(scope, cast("OpLibrary | None", native), report)


def test_without_cublas_regions_of_a_gpu_hold_no_matmuls() -> None:
    report, native = Report(), Native("no cuBLASLt library")
    found = libraries("auto", native, report)
    assert found.devices("CPU") == {"CPU": Matmuls.SMALL, "GPU": Matmuls.ALL}
    assert native.asked == 0, "a program on the CPU needs none"
    for _ in range(2):
        assert found.devices("GPU") == {"CPU": Matmuls.SMALL}
    assert native.asked == 1
    [entry] = report.document()["fallbacks"]
    assert (entry["stage"], entry["count"]) == ("library", 1)
    assert entry["reason"] == "no cuBLASLt library: regions hold none"


def test_with_cublas_they_do() -> None:
    report = Report()
    assert libraries("region", Native(""), report).devices("GPU") == {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL}
    assert libraries("ops", Native(""), report).devices("GPU") == NO_MATMULS
    assert libraries("auto", None, report).devices("GPU") == NO_MATMULS
    assert report.document()["fallbacks"] == []


def test_regions_of_a_target_without_libraries_hold_no_matmuls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "TARGETS", tuple(
        replace(one, libraries=() if one.device_type == "GPU" else one.libraries) for one in targets.TARGETS))
    native = Native("no cuBLASLt library")
    report = Report()
    assert libraries("region", native, report).devices("GPU") == {"CPU": Matmuls.ALL}
    assert (native.asked, report.document()["fallbacks"]) == (0, [])


def test_with_cudnn_regions_of_a_gpu_hold_convolutions() -> None:
    native = Native("")
    found = libraries("region", native, Report())
    assert found.devices("GPU")["GPU"] is Matmuls.ALL
    assert native.asked_for_cudnn == 0, "a program without convolutions needs none"
    for _ in range(2):
        taken = found.devices("GPU", convolutions=True)
        assert taken == {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL_AND_CONVOLUTIONS}
    assert native.asked_for_cudnn == 1
    assert found.devices("CPU", convolutions=True)["CPU"] is Matmuls.ALL
    auto = libraries("auto", native, Report())
    assert auto.devices("GPU", convolutions=True)["GPU"] is Matmuls.ALL_AND_CONVOLUTIONS
    assert libraries("ops", native, Report()).devices("GPU", convolutions=True) == NO_MATMULS


def test_without_cudnn_they_hold_matmuls_alone() -> None:
    report, native = Report(), Native("", "no cuDNN 9 library")
    found = libraries("region", native, report)
    for _ in range(2):
        assert found.devices("GPU", convolutions=True) == {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL}
    assert native.asked_for_cudnn == 1
    [entry] = report.document()["fallbacks"]
    assert entry["reason"] == "no cuDNN 9 library: regions hold none"


def test_a_target_without_convolutions_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "TARGETS", tuple(
        replace(one, libraries=one.libraries[:1]) for one in targets.TARGETS))
    native, report = Native(""), Report()
    assert libraries("region", native, report).devices("GPU", convolutions=True)["GPU"] is Matmuls.ALL
    assert (native.asked_for_cudnn, report.document()["fallbacks"]) == (0, [])


def test_without_nccl_sums_over_gpus_stay_and_that_is_said_once() -> None:
    report, native = Report(), Native("", nccl_missing="no NCCL 2 library")
    found = libraries("auto", native, report)
    assert native.asked_for_nccl == 0, "most programs have no such sums"
    assert not found.has_nccl
    assert not found.has_nccl
    assert native.asked_for_nccl == 1
    [entry] = report.document()["fallbacks"]
    assert (entry["stage"], entry["count"]) == ("library", 1)
    assert entry["reason"] == "no NCCL 2 library: they stay TensorFlow's collectives"
    assert libraries("auto", Native(""), Report()).has_nccl
    assert not libraries("auto", None, Report()).has_nccl


@pytest.mark.parametrize(("native", "has"), [
    (Native(""), True), (Native("", version=91600), True), (Native("", version=91500), False),
    (Native("", "no cuDNN 9 library"), False), (None, False)],
    ids=["9.19", "9.16", "9.15", "none", "no native op"])
def test_a_newer_cudnn_has_fused_attention(native: Native | None, has: bool) -> None:
    """Without it kernels of ours compute attentions, which is no fallback, and remarked."""
    report = Report()
    for scope, holds_matmuls in (("region", True), ("auto", True), ("ops", False)):
        assert libraries(scope, native, report).has_fused_attention is (has and holds_matmuls)
    assert report.document()["fallbacks"] == []
    remarks = {(entry["where"], entry["count"]) for entry in report.document()["remarks"]}
    assert remarks == (set() if has or native is None else {("attentions", 2)})


def test_cudnn_is_asked_for_fused_attention_once() -> None:
    native = Native("")
    found = libraries("region", native, Report())
    assert found.has_fused_attention
    assert found.has_fused_attention
    assert native.asked_for_cudnn == 1


def test_without_cublas_there_is_no_fused_attention() -> None:
    found = libraries("region", Native("no cuBLASLt library"), Report())
    found.devices("GPU")
    assert not found.has_fused_attention


@pytest.mark.parametrize("why", ["", "cuDNN has no kernel for it"])
def test_each_call_is_tried_once_on_each_device(why: str) -> None:
    nodes = attention_nodes(DType.BF16)
    one, other = call_of(nodes[OpKind.ATTENTION]), call_of(nodes[OpKind.ATTENTION_LOG_SUM])
    native = Native("", why)
    found = libraries("region", native, Report())
    for _ in range(2):
        assert [found.refusal(device, call) for device, call in ((0, one), (1, one), (0, other))] == [why] * 3
    assert native.tried == [(0, words_of(one)), (1, words_of(one)), (0, words_of(other))]
