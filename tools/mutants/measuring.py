"""Mutants of measurements: what is on record for good, and what is counted."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

BLIND = "tests/tools/test_blind.py"

MUTANTS = (
    Mutant("a seed on record is measured again", "tools/blind/record.py",
           "if known:",
           "if False:",
           (f"{BLIND}::test_first_figures_stay",)),
    Mutant("losses far from TensorFlow's agree", "tools/blind/agreement.py",
           "apart <= TOLERANCES[policy]",
           "True",
           (f"{BLIND}::test_losses_are_held_against_tensorflow_s",)),
    Mutant("losses that are no numbers agree", "tools/blind/agreement.py",
           "inf if isfinite(found) or isfinite(wanted) else 0.0",
           "0.0",
           (f"{BLIND}::test_losses_are_held_against_tensorflow_s",)),
    Mutant("kernels at the same time count twice", "tools/benchmark/device_time.py",
           "end - max(begin, reached)",
           "end - begin",
           ("tests/tools/test_device_time.py",)),
)
