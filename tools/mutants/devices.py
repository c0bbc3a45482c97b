"""Mutants of what is known of devices: numbers of profiles, and what follows for a device that nobody measured."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

DEFAULT = "tests/device/test_default_profile.py"
PROFILE = "tests/device/test_profile.py"
DEVICES = "tests/runtime/test_device_profiles.py"

MUTANTS = (
    Mutant("numbers are the same on every device", "tf_stitch/device/numbers.py",
           "return there.value * (ours / theirs if ours and theirs else 1.0)",
           "return there.value",
           (DEFAULT,)),
    Mutant("numbers are smaller where what they follow is larger", "tf_stitch/device/numbers.py",
           "(ours / theirs if",
           "(theirs / ours if",
           (DEFAULT,)),
    Mutant("a number of a device of its own is not believed", "tf_stitch/device/numbers.py",
           "if known is None else known.value",
           "if known is None or part.metadata[\"follows\"] else known.value",
           (DEFAULT,)),
    Mutant("numbers in another unit are read", "tf_stitch/device/numbers.py",
           "if one.unit != known[name]:",
           "if not one.unit:",
           (PROFILE,)),
    Mutant("memory is as fast as on an H200", "tf_stitch/device/default_profile.py",
           "memory = here.memory_gbps / there.memory_gbps",
           "memory = 1.0",
           (DEFAULT,)),
    Mutant("fewer processors compute as fast", "tf_stitch/device/default_profile.py",
           "chip = here.processors * here.clock_mhz / (there.processors * there.clock_mhz)",
           "chip = here.clock_mhz / there.clock_mhz",
           (DEFAULT,)),
    Mutant("a small cache holds what a large one does", "tf_stitch/device/default_profile.py",
           "if x <= here else",
           "if x <= there else",
           (DEFAULT,)),
    Mutant("few processors get more from memory than from the cache", "tf_stitch/device/default_profile.py",
           "min(beyond * (y if x > there else rest[0]), most)",
           "beyond * (y if x > there else rest[0])",
           (DEFAULT,)),
    Mutant("every GPU is an H200", "tf_stitch/runtime/device_profiles.py",
           "if name == H200.profile.made[\"gpu\"]:",
           "if name:",
           (DEVICES,)),
    Mutant("numbers of other hardware stay in a profile", "tools/calibrate/measure.py",
           "return dict(before[\"numbers\"]) if same else {}",
           "return dict(before[\"numbers\"])",
           ("tests/tools/test_calibrate.py::test_numbers_of_other_hardware_are_not_kept",)),
)
