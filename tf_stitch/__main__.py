"""`python -m tf_stitch script.py args...`, `python -m tf_stitch -m module args...`: runs a program with the hook.

For places where the installed .pth file is not read: `pip install --target`, `python -S`. TF_STITCH decides, as
everywhere, whether graphs are rewritten.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tf_stitch.config import load_config
from tf_stitch.errors import ConfigError

USAGE = "usage: python -m tf_stitch (script.py | -m module) [arguments...]"


def main(arguments: list[str]) -> None:
    """Runs the program named by `arguments` as `__main__`.

    Raises:
        SystemExit: wrong usage or a TF_STITCH_* variable that is not allowed.
    """
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
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        if not getattr(sys.flags, "safe_path", False):  # `python -P` has put no folder of its own there
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
