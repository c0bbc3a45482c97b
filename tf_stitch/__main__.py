"""`tf_stitch convert`, `tf_stitch hfuse`: the commands; `python -m tf_stitch` is the same.
`tf_stitch script.py args...`, `tf_stitch -m module args...`: runs a program with the hook.

The latter is for places where the installed .pth file is not read: `pip install --target`, `python -S`. TF_STITCH
decides, as everywhere, whether graphs are rewritten.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tf_stitch.config import load_config
from tf_stitch.errors import ConfigError

USAGE = """usage: tf_stitch convert [flags]                              converts a SavedModel
       tf_stitch hfuse [flags]                                fuses two CUDA kernels
       tf_stitch (script.py | -m module) [arguments...]       runs a program with the hook
A command says more with --help."""


def main(arguments: list[str] | None = None) -> None:
    """Runs a command, or the program named by `arguments` as `__main__`.

    Args:
        arguments: those of the process if None.

    Raises:
        SystemExit: a command has ended, wrong usage, or a TF_STITCH_* variable that is not allowed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["convert"]:
        from tf_stitch.convert.command import main as convert

        raise SystemExit(convert(arguments[1:]))
    if arguments[:1] == ["hfuse"]:
        from tf_stitch.hfuse.command import main as hfuse

        raise SystemExit(hfuse(arguments))
    if not arguments or arguments == ["-m"]:
        raise SystemExit(USAGE)
    try:
        enabled = load_config().enabled
    except ConfigError as error:
        raise SystemExit(f"[tf_stitch] {error}") from None
    if enabled:
        import tf_stitch.plugin.autoload  # noqa: F401  (importing it is what activates)
    else:
        print("[tf_stitch] TF_STITCH is not 1: running without tf_stitch", file=sys.stderr)
    if arguments[0] == "-m":
        if not getattr(sys.flags, "safe_path", False):  # the installed command's own folder is there
            sys.path[0] = ""
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        if not getattr(sys.flags, "safe_path", False):  # `python -P` has put no folder of its own there
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
