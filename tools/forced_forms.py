"""Runs a program whose regions run their fallback subgraphs: in every call, or in every other one; or build no kernels.

    python -m tools.forced_forms fallback program.py [arguments]
    python -m tools.forced_forms in_turns -m pytest tests
    python -m tools.forced_forms unbuilt program.py           as fallback, quicker: for many programs

The program gives what it gives without tf_stitch, but for rounding. Calls wait for kernels, so that the clock decides
nothing. The last line on stderr says how often each form ran.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence

FORMS = {"fallback": 0, "in_turns": -1}
"""What runs -> the call from which fallbacks do, see native.bindings.Verdict."""
UNBUILT = "unbuilt"
ENVIRONMENT = {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0", "TF_STITCH_FIRST_STEP_SECONDS": "0", "TF_STITCH_GUARD": "1"}


def force(form: str) -> None:
    """From now on regions run so, once tf_stitch has begun with ENVIRONMENT. Nothing is measured."""
    from tf_stitch.jit.profitability import ProfitabilityCheck
    from tf_stitch.native.bindings import Verdict
    from tf_stitch.plugin.session import Session

    if form == UNBUILT:
        Session.build = lambda *_: None  # type: ignore[method-assign]
        return
    verdict = Verdict(True, 0.0, 0.0, FORMS[form])
    ProfitabilityCheck.recall = lambda *_: verdict  # type: ignore[method-assign]


def runs() -> tuple[int, int]:
    """Calls of regions by their kernels, and by their fallback subgraphs."""
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    if session is None:
        return 0, 0
    regions = session.document()["regions"]
    return (sum(r["runs"] for r in regions),
            sum(r["preferred_fallback_runs"] + r["fallbacks"] for r in regions))


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2 or arguments[0] not in (*FORMS, UNBUILT):
        sys.exit(__doc__)
    os.environ.update(ENVIRONMENT)
    import tensorflow as tf  # noqa: F401  (it has to be there before what force imports)

    import tf_stitch.plugin.autoload  # noqa: F401  (importing it is what activates)
    from tf_stitch.cli.run import run_program

    force(arguments[0])
    atexit.register(lambda: print("forms: {} by kernels, {} by fallbacks".format(*runs()), file=sys.stderr))
    run_program(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
