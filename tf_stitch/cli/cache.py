"""`tf_stitch cache`: shows what the cache folder holds, and clears it.

  tf_stitch cache                    # what is there, and how much
  tf_stitch cache --clear            # removes what runs make again when they need it: kernels, plans, verdicts, times
  tf_stitch cache --clear=native     # one kind alone; all: native libraries and measurements of this machine, too

The folder is TF_STITCH_CACHE, else ~/.cache/tf_stitch. It may be copied to machines of the same kind, and be read-only
there (docs/environment.md).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from tf_stitch.cli.commands import parse, wrong
from tf_stitch.config import load_config
from tf_stitch.errors import ConfigError
from tf_stitch.private_folder import make_private

KINDS = {
    "kernels": "built kernels",
    "plans": "what is fused with what",
    "functions": "functions whose kernels are built",
    "verdicts": "kernels or TensorFlow's ops, which is faster",
    "steps": "what calls of functions took and take",
    "conversions": "verdicts of tf_stitch convert",
    "native": "native libraries, and builds that failed",
    "profiles": "this machine, measured by tools.calibrate",
    "measured": "measured kernels",
    "templates": "tuned kernels",
    "fusions": "measured pairs of kernels, side by side",
}
"""Folder -> what it holds."""
_REMADE = ("kernels", "plans", "functions", "verdicts", "steps")


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    if "--clear" in arguments:
        arguments = [argument if argument != "--clear" else f"--clear={','.join(_REMADE)}" for argument in arguments]
    values = flags.FlagValues()
    flags.DEFINE_list("clear", [], f"kinds to remove: {', '.join(KINDS)}, or all", flag_values=values)
    flags.DEFINE_string("cache", None, "another folder than the one in use", flag_values=values)
    rest = parse("cache", __doc__, values, arguments)
    kinds = list(KINDS) if values.clear == ["all"] else values.clear
    unknown = [*rest, *(kind for kind in kinds if kind not in KINDS)]
    if unknown:
        return wrong("cache", f"{unknown[0]} is no kind of what is kept")
    try:
        folder = Path(values.cache).expanduser() if values.cache else load_config().cache_dir.expanduser()
    except ConfigError as error:
        print(f"tf_stitch cache: {error}", file=sys.stderr)
        return 1
    if not folder.is_dir():
        print(f"{folder} is not there yet: the first run makes it")
        return 0
    try:
        for kind in kinds:
            if (folder / kind).is_dir():
                print(f"removed {size_line(folder / kind, KINDS[kind])}")
                shutil.rmtree(folder / kind)
    except OSError as error:
        print(f"tf_stitch cache: {error}", file=sys.stderr)
        return 1
    if not kinds:
        print("\n".join(contents(folder)))
    return 0


def contents(folder: Path) -> list[str]:
    """What a cache folder holds, a line each."""
    problem = make_private(folder).problem
    lines = [f"{folder}" + (f" (cannot be written: {problem})" if problem else "")]
    return lines + [f"  {size_line(folder / kind, words)}" for kind, words in KINDS.items() if (folder / kind).is_dir()]


def size_line(folder: Path, words: str) -> str:
    """Files and bytes of one kind."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{folder.name:12} {len(sizes):6} files {sum(sizes) / 2**20:9.1f} MiB  {words}"
