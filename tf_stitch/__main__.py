"""`tf_stitch COMMAND`; `python -m tf_stitch` is the same. `tf_stitch script.py args...`, `tf_stitch -m module args...`:
runs a program; TF_STITCH decides, as everywhere, whether graphs are rewritten. A program is a file that exists, or a
name that ends in .py.

The latter is for places where the installed .pth file is not read: `pip install --target`, `python -S`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tf_stitch.cli.commands import COMMANDS, USAGE, nearest, usage
from tf_stitch.version import __version__


def main(arguments: list[str] | None = None) -> None:
    """Runs a command, or the program named by `arguments` as `__main__`.

    Args:
        arguments: those of the process if None.

    Raises:
        SystemExit: a command has ended, wrong usage, or a TF_STITCH_* variable that is not allowed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        print(usage())
        raise SystemExit(0)
    if arguments[:1] in (["--version"], ["version"]):
        print(f"tf_stitch {__version__}")
        raise SystemExit(0)
    if not arguments or arguments == ["-m"]:
        raise SystemExit(usage())
    first = arguments[0]
    if first in COMMANDS:
        raise SystemExit(COMMANDS[first].run(arguments[1:]))
    if first != "-m" and not _is_program(first):
        print(f"tf_stitch: {nearest(first)}; tf_stitch --help lists the commands", file=sys.stderr)
        raise SystemExit(USAGE)
    from tf_stitch.cli.run import run_program

    run_program(arguments)


def _is_program(name: str) -> bool:
    """Whether it names what Python runs: a script, or a folder with __main__.py. A script that is not there is still
    one."""
    path = Path(name)
    return path.is_file() or path.suffix == ".py" or (path / "__main__.py").is_file()


if __name__ == "__main__":
    main()
