"""`tf_stitch COMMAND`; `python -m tf_stitch` is the same. `tf_stitch script.py args...`, `tf_stitch -m module args...`:
runs a program; TF_STITCH decides, as everywhere, whether graphs are rewritten.

The latter is for places where the installed .pth file is not read: `pip install --target`, `python -S`.
"""

from __future__ import annotations

import sys

from tf_stitch.cli.commands import COMMANDS, usage


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
    if not arguments or arguments == ["-m"] or (arguments[0].startswith("-") and arguments[0] != "-m"):
        raise SystemExit(usage())
    if arguments[0] in COMMANDS:
        raise SystemExit(COMMANDS[arguments[0]].run(arguments[1:]))
    from tf_stitch.cli.run import run_program

    run_program(arguments)


if __name__ == "__main__":
    main()
