"""Times of matmuls between, below and beyond the measured sizes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tf_stitch.device.matmul_times import MatmulTimes, parse_matmul_times, parse_matmuls
from tf_stitch.device.profile import parse_profile
from tf_stitch.device.spec import H200
from tf_stitch.errors import ProfileError

AXES = ((1, 16), (1, 32, 1024), (8, 64), (4, 4096))
TIMES = MatmulTimes(AXES, tuple(1.0 + math.prod(sizes) for sizes in itertools.product(*AXES)))


def test_measured_sizes_take_what_was_measured() -> None:
    for sizes in itertools.product(*AXES):
        assert TIMES.at(sizes) == pytest.approx(1.0 + math.prod(sizes))


def test_between_measured_sizes() -> None:
    assert TIMES.at((4, 32, 64, 4)) == pytest.approx(math.sqrt(TIMES.at((1, 32, 64, 4)) * TIMES.at((16, 32, 64, 4))))
    times = [TIMES.at((3, m, 20, 500)) for m in range(1, 1025, 31)]
    assert times == sorted(times)


def test_below_and_beyond() -> None:
    assert TIMES.at((1, 1, 2, 1)) == TIMES.at((1, 1, 8, 4))
    assert TIMES.at((32, 1024, 64, 3 * 4096)) == pytest.approx(6 * TIMES.at((16, 1024, 64, 4096)))
    assert TIMES.at((1, 0, 8, 4)) == TIMES.at((1, 1, 8, 4))


def test_a_document_survives() -> None:
    assert parse_matmul_times(TIMES.document()) == TIMES


@pytest.mark.parametrize("wrong", [
    3, {}, {"axes": [[1]] * 4}, {"axes": [[1]] * 3, "us": [1]}, {"axes": [[1]] * 4, "us": [1, 2]},
    {"axes": [[1]] * 4, "us": [0]}, {"axes": [[1]] * 4, "us": [math.nan]}, {"axes": [[2, 1]] * 4, "us": [1] * 16},
    {"axes": [[0]] * 4, "us": [1]}, {"axes": [[]] * 4, "us": []}, {"axes": [["many"]] * 4, "us": [1]}])  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ProfileError, match="matmuls"):
        parse_matmuls({"float32": wrong})


def test_half_types_share_times() -> None:
    document = H200.profile.document() | {"matmuls": {"float16": TIMES.document()}}
    profile = parse_profile(document)
    sizes = (1, 32, 64, 4)
    assert profile.matmul_us("float16", sizes) == profile.matmul_us("bfloat16", sizes) == TIMES.at(sizes)
    assert profile.matmul_us("float32", sizes) is None


def test_on_a_gpu_few_rows_say_nothing_of_many() -> None:
    document = H200.profile.document() | {"matmuls": {"float32": TIMES.document()}, "matmul_rates": {}}
    profile = parse_profile(document)
    assert profile.matmul_us("float32", (1, 1024, 64, 4096)) == TIMES.at((1, 1024, 64, 4096))
    assert profile.matmul_us("float32", (1, 4096, 64, 1024)) == TIMES.at((1, 1024, 64, 4096))
    assert profile.matmul_us("float32", (1, 4096, 64, 1025)) is None
    assert parse_profile(document | {"target": "cpu"}).matmul_us("float32", (1, 4096, 64, 1025)) is not None


def test_large_matmuls_take_what_their_rows_allow() -> None:
    rates = {"float16": {"2": 1e4, "8": 2e4, "16": 4e4}}
    profile = parse_profile(H200.profile.document() | {"matmul_rates": rates})
    sizes = (1, 4096, 4096, 4096)
    aligned, half, odd = (profile.matmul_us("bfloat16", sizes, row) for row in (16, 8, 2))
    assert aligned is not None
    assert half is not None
    assert odd is not None
    launch = profile.launch_us
    assert aligned - launch > 4096**3 / 4e4 * 1e-3
    assert half - launch == pytest.approx(2 * (aligned - launch))
    assert odd - launch == pytest.approx(4 * (aligned - launch))
    assert profile.matmul_us("bfloat16", sizes, 4) == odd, "what was not measured is no faster"


def test_many_small_matmuls_take_what_their_bytes_do() -> None:
    batch, m, k, n = sizes = 384, 196, 64, 200
    found = H200.profile.matmul_us("bfloat16", sizes)
    assert found is not None
    assert found * 1e3 > 2 * batch * (m * k + k * n + m * n) / max(rate for _, rate in H200.profile.bandwidth)


@pytest.mark.parametrize("wrong", [{"float16": {"3": 1}}, {"float16": {"16": -1}}, {"float16": {"16": "fast"}}])
def test_bad_rates(wrong: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ProfileError, match="matmul_rates"):
        parse_profile(H200.profile.document() | {"matmul_rates": wrong})


@pytest.mark.parametrize(("sizes", "us"), [
    ((1, 16, 401408, 64), 40.7), ((1, 96, 401408, 16), 52.6), ((1, 24, 100352, 72), 21.7), ((1, 16, 25088, 96), 11.1),
    ((1, 16, 16384, 64), 9.1), ((1, 64, 100352, 256), 37.2), ((1, 40, 25088, 240), 14.6)])  # fmt: skip
def test_many_terms_are_shared(sizes: tuple[int, int, int, int], us: float) -> None:
    """What the library took on an H200, in TF32."""
    assert H200.profile.matmul_us("float32", sizes) == pytest.approx(us, rel=0.25)


@pytest.mark.parametrize("sizes", [(1, 16, 401408, 64), (1, 16, 25088, 96), (1, 4, 4096, 64)])
def test_a_transposed_matmul_takes_as_long(sizes: tuple[int, int, int, int]) -> None:
    batch, m, k, n = sizes
    assert H200.profile.matmul_us("float32", (batch, n, k, m)) == H200.profile.matmul_us("float32", sizes)


def test_more_rows_take_no_less() -> None:
    found = [H200.profile.matmul_us("float32", (1, rows, 4096, 256)) for rows in (16, 17, 32, 64, 256)]
    assert sorted(filter(None, found)) == found
