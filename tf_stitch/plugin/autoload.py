"""Waits for TensorFlow's import, then activates tf_stitch if TF_STITCH says so: from the interpreter's start on where
it was set by then, else from the import of tf_stitch on.

Must stay cheap: neither TensorFlow nor NumPy is imported here.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tf_stitch.config import StitchConfig, load_config
from tf_stitch.errors import ConfigError
from tf_stitch.messages import say
from tf_stitch.plugin import at_exit  # registers itself before the program can
from tf_stitch.plugin.post_import import after_import


def _config() -> StitchConfig:
    """Reads the environment; a mistake there ends the program with one clear line."""
    try:
        return load_config()
    except ConfigError as error:
        raise SystemExit(f"[tf_stitch] {error}") from None


def _check() -> None:
    _config()


def was_active() -> bool:
    """Whether tf_stitch was turned on in this process, as far as can be said without importing TensorFlow."""
    activation = sys.modules.get("tf_stitch.plugin.activation")
    return activation is not None and bool(activation.is_enabled())


def is_active() -> bool:
    """Whether graphs are rewritten now."""
    return was_active() and bool(sys.modules["tf_stitch.plugin.graph_hook"].is_on())


def _say_if_set_too_late() -> None:
    """The variable was set in the program, after TensorFlow's import had found it unset."""
    try:
        late = "tensorflow" in sys.modules and not was_active() and load_config().enabled
    except ConfigError:
        return
    if late and not _tried:
        say("nothing was stitched: TF_STITCH was set after TensorFlow had been imported; set it before, "
              "or call tf_stitch.enable()")


_tried: list[bool] = []


def _activate(_: ModuleType) -> None:
    config = _config()
    if not config.enabled:
        return
    _tried.append(True)
    try:
        from tf_stitch.plugin.activation import enable

        enable(config)
    except Exception as error:
        if config.strict:
            raise
        say(f"disabled, TensorFlow runs this program alone: {error}")


at_exit.callbacks.callback(_say_if_set_too_late)
after_import("tensorflow", _activate, before=_check)
