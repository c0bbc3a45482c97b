"""`tf_stitch run`: runs a program with its graphs stitched, as TF_STITCH=1 in its environment does.

  tf_stitch run train.py --steps=20
  tf_stitch run --report=/tmp/stitch train.py
  tf_stitch run --strict -m mypackage.train

Flags of tf_stitch come first; all behind the program's name is the program's. Other TF_STITCH_* variables count, too
(docs/environment.md), and programs that this one starts inherit them.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from tf_stitch.cli.commands import parse, wrong
from tf_stitch.config import load_config, set_variables
from tf_stitch.errors import ConfigError
from tf_stitch.messages import CHANNELS, say


def main(arguments: Sequence[str]) -> int:
    """Runs the program; the exit code, unless the program ends by itself."""
    values = flags.FlagValues()
    flags.DEFINE_string("report", None, "folder for the report that `tf_stitch explain` reads", flag_values=values)
    flags.DEFINE_string("cache", None, "folder of built kernels", flag_values=values)
    flags.DEFINE_boolean("strict", False, "raise where TensorFlow's own ops would run instead", flag_values=values)
    flags.DEFINE_string("log", None, f"what to say while it runs, with commas between: {', '.join(CHANNELS)}",
                        flag_values=values)
    own, program = _split(arguments)
    rest = parse("run", __doc__, values, own)
    if rest or not program or program == ["-m"]:
        return wrong("run", "which program?")
    folders = {"TF_STITCH_REPORT": values.report, "TF_STITCH_CACHE": values.cache, "TF_STITCH_LOG": values.log}
    set_variables({"TF_STITCH": "strict" if values.strict else "1",
                   **{name: value for name, value in folders.items() if value is not None}})
    run_program(program)
    return 0


def run_program(program: Sequence[str]) -> None:
    """Runs "script.py arguments..." or "-m module arguments..." as `__main__`. TF_STITCH decides if it is stitched.

    Raises:
        SystemExit: a TF_STITCH_* variable that is not allowed; and what the program raises.
    """
    try:
        enabled = load_config().enabled
    except ConfigError as error:
        raise SystemExit(f"[tf_stitch] {error}") from None
    if enabled:
        import tf_stitch.plugin.autoload  # noqa: F401  (importing it is what activates)
    else:
        say("TF_STITCH is not 1: running without tf_stitch")
    safe_path = getattr(sys.flags, "safe_path", False)  # `python -P` has put no folder of its own there
    if program[0] == "-m":
        if not safe_path:  # the installed command's own folder is there
            sys.path[0] = ""
        sys.argv = list(program[1:])
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        if not Path(program[0]).exists():
            raise SystemExit(f"[tf_stitch] there is no program {program[0]}")
        sys.argv = list(program)
        if not safe_path:
            sys.path[0] = str(Path(program[0]).resolve().parent)
        runpy.run_path(program[0], run_name="__main__")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our flags, and the program with its arguments."""
    for place, argument in enumerate(arguments):
        if argument == "-m" or not argument.startswith("-"):
            return list(arguments[:place]), list(arguments[place:])
    return list(arguments), []
