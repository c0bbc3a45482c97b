"""The commands of `tf_stitch`, and how they read their flags. A command's module is imported when it is called."""

from __future__ import annotations

import difflib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from absl import flags

USAGE = 2
"""Exit code: the flags make no sense."""


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        module: has `main(arguments) -> exit code`, arguments without the command's name.
        summary: of what it does, a line.
    """

    module: str
    summary: str

    def run(self, arguments: Sequence[str]) -> int:
        """The exit code."""
        code: int = import_module(self.module).main(list(arguments))
        return code


COMMANDS: Mapping[str, Command] = {
    "run": Command("tf_stitch.cli.run", "runs a program with its graphs stitched"),
    "explain": Command("tf_stitch.cli.explain.command", "says where a run's time goes, and why ops were left out"),
    "doctor": Command("tf_stitch.cli.doctor", "says what works on this machine, and what to do about the rest"),
    "bisect": Command("tf_stitch.cli.bisect", "finds the region and kernel that make a result differ"),
    "bug-report": Command("tf_stitch.cli.bug_report", "puts what a bug report needs into one archive"),
    "convert": Command("tf_stitch.convert.command", "makes a SavedModel that carries its kernels with it"),
    "prebuild": Command("tf_stitch.cli.prebuild", "fills a cache, for images and clusters"),
    "cache": Command("tf_stitch.cli.cache", "shows the cache, and clears it"),
    "hfuse": Command("tf_stitch.cli.hfuse", "fuses two CUDA kernels into one, side by side"),
}


def usage() -> str:
    """What `tf_stitch --help` says."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: tf_stitch COMMAND [flags]; tf_stitch COMMAND --help says more", "", *lines, "",
                      "tf_stitch train.py runs a program; TF_STITCH=1 in the environment has its graphs stitched.",
                      "tf_stitch --version says which tf_stitch this is.", "",
                      "Start with `tf_stitch doctor`, then `tf_stitch run --report=/tmp/stitch train.py` and",
                      "`tf_stitch explain /tmp/stitch`. TF_STITCH=1 in the environment does what run does."])


def nearest(name: str) -> str:
    """What is said of a name that is no command, with the command that it may have been meant to be."""
    if name.startswith("-"):
        return f"{name} is no flag"
    close = difflib.get_close_matches(name, [*COMMANDS, "version"], n=1)
    said = f"there is no command {name!r}, and no such file"
    return f"{said}: did you mean {close[0]!r}?" if close else said


def parse(name: str, doc: str | None, values: flags.FlagValues, arguments: Sequence[str], stop: bool = False
          ) -> list[str]:
    """Arguments that are no flags.

    Args:
        name: of the command.
        doc: what --help says before the flags.
        stop: flags end at the first argument that is none: what follows is another program's.

    Raises:
        SystemExit: with 0 after --help, with USAGE where a flag is wrong.
    """
    flags.DEFINE_boolean("help", False, "show this", flag_values=values, short_name="h")
    values.set_gnu_getopt(not stop)
    try:
        rest: list[str] = values([name, *arguments])[1:]
    except flags.Error as error:
        print(f"tf_stitch {name}: {error}; --help says more", file=sys.stderr)
        raise SystemExit(USAGE) from None
    if values.help:
        print("\n".join([(doc or "").strip(), "", "Flags:", *_flag_lines(values)]))
        raise SystemExit(0)
    return rest


def _flag_lines(values: flags.FlagValues) -> list[str]:
    """A line or more for each flag, without those of absl that all programs have."""
    lines = []
    for name in sorted(name for name in values if name not in ("help", "h")):
        flag = values[name]
        choices = getattr(flag.parser, "enum_values", None)
        form = f"--{name}" if flag.boolean else f"--{name}={'|'.join(choices or ['...'])}"
        default = "" if flag.default in (None, False, "", []) else f" (default: {flag.default_as_str})"
        words = flag.help.rpartition(">: ")[2]  # absl puts the choices before it
        lines += textwrap.wrap(f"{form}: {words}{default}", 110, initial_indent="  ", subsequent_indent="      ")
    return lines


def wrong(name: str, message: str) -> int:
    """Says what is wrong with the arguments; the exit code."""
    print(f"tf_stitch {name}: {message}; --help says more", file=sys.stderr)
    return USAGE
