"""Device profiles: what a file may hold, and which one holds for a device."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.device.numbers import units
from tf_stitch.device.profile import (
    GROUPS,
    device_key,
    interpolate,
    parse_profile,
    read_profile,
    shipped_profile,
    write_profile,
)
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ProfileError
from tf_stitch.runtime.device_profiles import device_spec, own_profile_path


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_shipped_profiles_say_where_they_were_made(name: str) -> None:
    profile = shipped_profile(name)
    made = dict(profile.made)
    assert made["date"] >= "2026-11-21"
    assert "tools.calibrate" in made["command"]
    assert made.get("gpu") or made.get("cpu")
    assert parse_profile(json.loads(json.dumps(profile.document()))) == profile


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    write_profile(CPU.profile, tmp_path / "folder" / "cpu.json", in_cache=False)
    assert read_profile(tmp_path / "folder" / "cpu.json") == CPU.profile
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["cpu.json"]


@pytest.mark.parametrize(("field", "value", "said"), [
    ("launch_us", -1.0, "launch_us"), ("launch_us", "fast", "launch_us"), ("launch_us", float("nan"), "launch_us"),
    ("bandwidth", [], "bandwidth"), ("bandwidth", [[2, 1], [1, 1]], "ascend"), ("bandwidth", [[1, 0]], "bandwidth"),
    ("latency", [], "latency"), ("reduction", [], "reduction"), ("rates", {"float64": {"add": 1.0}}, "rates"),
    ("rates", {"float32": {"add": 0}}, "rates of add"), ("target", "tpu", "tpu"), ("version", 0, "version"),
    ("odd", 1, "odd"), ("processors", None, "processors")])
def test_a_wrong_field_is_named(field: str, value: Any, said: str) -> None:
    document = {**H200.profile.document(), field: value}
    with pytest.raises(ProfileError, match=said):
        parse_profile(document)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}'])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"damaged\.json"):
        read_profile(path)


def test_curves_are_straight_over_the_logarithm_and_flat_beyond_their_ends() -> None:
    curve = ((1.0, 10.0), (100.0, 30.0))
    assert [interpolate(curve, x) for x in (0.1, 1, 10, 100, 1e9)] == pytest.approx([10, 10, 20, 30, 30])


def test_an_op_that_was_not_measured_counts_additions() -> None:
    profile = H200.profile
    assert profile.rate("float32", "no_such_op", 4) == pytest.approx(profile.rate("float32", "add", 1) / 4)
    assert profile.rate("no_such_type", "exp", 10) == profile.rate("float32", "exp", 10)


def test_names_of_devices_become_names_of_files() -> None:
    assert device_key("Intel(R) Xeon(R) Processor @ 2.50GHz") == "intel_r_xeon_r_processor_2_50ghz"


def test_the_users_own_profile_goes_first(tmp_path: Path) -> None:
    assert device_spec(tmp_path / "none", None).profile == CPU.profile
    own = replace(CPU.profile, launch_us=123.0)
    write_profile(own, own_profile_path(tmp_path, "cpu"), in_cache=True)
    assert device_spec(tmp_path, None).profile.launch_us == 123.0


def test_a_damaged_profile_of_the_user_is_said(tmp_path: Path) -> None:
    path = own_profile_path(tmp_path, "cpu")
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(ProfileError, match="profile"):
        device_spec(tmp_path, None)


@pytest.mark.parametrize("name", ["h200", "cpu"])
def test_shipped_profiles_have_every_number_of_their_target(name: str) -> None:
    """What one of them lacks means nothing on its target: it is 0, and nothing would follow from it."""
    known, own = units(GROUPS).keys(), dict(shipped_profile(name).numbers)
    others = dict({"h200": CPU, "cpu": H200}[name].profile.numbers)
    assert known - own.keys() <= others.keys()
    for group, kind in GROUPS:
        for field in fields(kind):
            full = f"{group}.{field.name}"
            assert getattr(getattr(shipped_profile(name), group), field.name) == (own[full].value if full in own else 0)


@pytest.mark.parametrize(("entry", "said"), [
    ({"value": 1, "unit": "us", "measured": "x"}, "'us', not in 'elements'"), ({"value": 1}, "packed_elements"),
    ({"value": -1, "unit": "elements", "measured": "x"}, "-1"),
    ({"value": True, "unit": "elements", "measured": "x"}, "True"),
    ({"value": float("nan"), "unit": "elements", "measured": "x"}, "nan"), ([1, 2], "packed_elements"),
    ({"value": 1, "unit": "elements", "measured": ""}, "does not say what measured it")])
def test_a_wrong_number_is_named(entry: Any, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        parse_profile({**H200.profile.document(), "numbers": {"sizes.packed_elements": entry}})


def test_an_unknown_number_is_named() -> None:
    entry = {"value": 1, "unit": "elements", "measured": "x"}
    with pytest.raises(ProfileError, match=r"sizes\.odd"):
        parse_profile({**H200.profile.document(), "numbers": {"sizes.odd": entry}})


def test_a_profile_of_before_there_were_numbers_is_read() -> None:
    document = H200.profile.document()
    del document["numbers"]
    assert parse_profile(document).choices == H200.profile.choices
