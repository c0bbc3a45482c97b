"""Numbers that were measured on one device: each has a unit, and says what it follows on other devices.

A profile holds those of its own device, in groups. One that it lacks follows by a formula: what it is on the device of
the shipped profile, times how much larger what it follows is here than there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from tf_stitch.device.follows import Calibrated
from tf_stitch.errors import ProfileError

Follows: TypeAlias = Callable[[Calibrated], float | None]
"""Of a profile a quantity; None: it does not say."""
Group = TypeVar("Group")


class MeasuredNumber(NamedTuple):
    """A number as a profile holds it.

    Attributes:
        measured: the command or the page that it is from; what nobody measured is "assumed".
    """

    value: float
    unit: str
    measured: str


class Numbered(Calibrated, Protocol):
    """A profile with numbers of its own."""

    @property
    def numbers(self) -> tuple[tuple[str, MeasuredNumber], ...]: ...


def number(unit: str, follows: Follows | None = None) -> Any:
    """A field of a group. Its type says whether it is a whole number.

    Args:
        follows: what of a profile the number is proportional to; None: it is taken to be the same on all devices.
    """
    return field(metadata={"unit": unit, "follows": follows})


def group_of(kind: type[Group], name: str, profile: Numbered, shipped: Callable[[], Numbered]) -> Group:
    """The numbers of a group for a profile's device; 0 for those that mean nothing on its kind of device.

    Args:
        name: of the group.
        shipped: gives the profile that numbers which `profile` lacks follow from.
    """
    own = dict(profile.numbers)
    values: dict[str, float] = {}
    for part in fields(kind):  # type: ignore[arg-type]  # a dataclass, which mypy cannot say of a type
        full = f"{name}.{part.name}"
        known = own.get(full)
        value = _following(full, part.metadata["follows"], profile, shipped()) if known is None else known.value
        values[part.name] = round(value) if part.type == "int" else value
    return kind(**values)


def _following(name: str, follows: Follows | None, profile: Numbered, shipped: Numbered) -> float:
    """A number that a profile lacks. Where one of both does not say what it follows, it is the same."""
    there = dict(shipped.numbers).get(name)
    if there is None:
        return 0.0
    ours, theirs = (follows(profile), follows(shipped)) if follows else (None, None)
    return there.value * (ours / theirs if ours and theirs else 1.0)


@cache
def units(groups: tuple[tuple[str, type[Any]], ...]) -> Mapping[str, str]:
    """Name of each number of some groups -> its unit."""
    return {f"{name}.{part.name}": part.metadata["unit"] for name, kind in groups for part in fields(kind)}


def parse_numbers(document: Any, known: Mapping[str, str]) -> tuple[tuple[str, MeasuredNumber], ...]:
    """The numbers of a profile's JSON, in the order of names.

    Args:
        known: name -> unit.

    Raises:
        ProfileError: one is not known, or has another unit or no value; the message names it.
    """
    if not isinstance(document, Mapping):
        raise ProfileError(f"numbers of a device profile are {document!r}")
    found = []
    for name, entry in sorted(document.items()):
        if name not in known:
            raise ProfileError(f"{name} is no number of a device profile that this tf_stitch knows")
        try:
            one = MeasuredNumber(**entry)
        except TypeError:
            raise ProfileError(f"{name} of a device profile is {entry!r}") from None
        if one.unit != known[name]:
            raise ProfileError(f"{name} of a device profile is in {one.unit!r}, not in {known[name]!r}")
        if isinstance(one.value, bool) or not isinstance(one.value, int | float) or not 0 <= one.value < float("inf"):
            raise ProfileError(f"{name} of a device profile is {one.value!r}, not a number")
        if not isinstance(one.measured, str) or not one.measured:
            raise ProfileError(f"{name} of a device profile does not say what measured it")
        found.append((name, one))
    return tuple(found)
