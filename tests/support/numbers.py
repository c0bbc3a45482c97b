"""Other numbers in the profile of a device, as long as a test runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_stitch.device.spec import DeviceSpec


def set_numbers(patch: pytest.MonkeyPatch, device: DeviceSpec, group: str, **values: float) -> None:
    """Changes numbers of a group, for all devices that share this one's profile."""
    patch.setitem(vars(device.profile), group, replace(getattr(device.profile, group), **values))
