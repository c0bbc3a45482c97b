from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tf_stitch.emit.rendered import Rendered
from tf_stitch.errors import BuildError
from tf_stitch.runtime import unit_builds
from tf_stitch.runtime.unit_builds import build_units


def kernel(symbol: str, called: str = "", size: int = 10) -> Rendered:
    return Rendered(symbol, ({called: "c" * size} if called else {}) | {symbol: "k" * size}, ())


KERNELS = [kernel("a", "f"), kernel("b", "f"), kernel("c"), kernel("d", "g", 100), kernel("e")]


def names(unit: Sequence[Rendered]) -> str:
    return "".join(k.symbol for k in unit)


def build(unit: Sequence[Rendered]) -> Path:
    return Path(names(unit))


def test_each_symbol_has_the_binary_of_its_unit() -> None:
    assert build_units(KERNELS, 40, build) == {
        "a": Path("abc"), "b": Path("abc"), "c": Path("abc"), "d": Path("d"), "e": Path("e")}
    assert build_units(KERNELS, 1 << 20, build) == dict.fromkeys("abcde", Path("abcde"))
    assert build_units([], 40, build) == {}


def test_units_are_built_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_builds, "cpu_count", lambda: 3)
    together = threading.Barrier(3, timeout=20)

    def meeting(unit: Sequence[Rendered]) -> Path:
        together.wait()
        return build(unit)

    assert len(set(build_units(KERNELS, 40, meeting).values())) == 3


def test_the_error_of_a_unit_is_raised() -> None:
    def failing(unit: Sequence[Rendered]) -> Path:
        if names(unit) == "d":
            raise BuildError("no memory")
        return build(unit)

    with pytest.raises(BuildError, match="no memory"):
        build_units(KERNELS, 40, failing)


def test_without_threads_units_are_built_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert build_units(KERNELS, 40, build)["d"] == Path("d")
