"""Runs at interpreter start when TF_STITCH is set: waits for TensorFlow's import, then activates tf_stitch.

Must stay cheap: neither TensorFlow nor NumPy is imported here.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tf_stitch.config import StitchConfig, load_config
from tf_stitch.errors import ConfigError
from tf_stitch.plugin import at_exit  # noqa: F401  (registers itself before the program can)
from tf_stitch.plugin.post_import import after_import


def _config() -> StitchConfig:
    """Reads the environment; a mistake there ends the program with one clear line."""
    try:
        return load_config()
    except ConfigError as error:
        raise SystemExit(f"[tf_stitch] {error}") from None


def _check() -> None:
    _config()


def _activate(_: ModuleType) -> None:
    config = _config()
    try:
        from tf_stitch.plugin.activation import enable

        enable(config)
    except Exception as error:
        if config.strict:
            raise
        print(f"[tf_stitch] disabled: {error}", file=sys.stderr)


after_import("tensorflow", _activate, before=_check)
