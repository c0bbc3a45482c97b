"""Keras 3 turns XLA on by itself on GPUs (jit_compile="auto"), and an XLA function has nothing left to stitch."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from tf_stitch.plugin.graph_hook import is_on
from tf_stitch.plugin.post_import import after_import

TRAINER_MODULE = "keras.src.trainers.trainer"


def resolve_auto_to_false() -> None:
    """Makes "auto" mean False, whether Keras has been imported or will be; an explicit True stays, and is said once.

    The TensorFlow backend alone: other backends never reach our hook.
    """
    after_import(TRAINER_MODULE, _patch)


def _patch(module: ModuleType) -> None:
    trainer = getattr(module, "Trainer", None)
    if trainer is None or not hasattr(trainer, "_resolve_auto_jit_compile"):
        print("[tf_stitch] this Keras resolves jit_compile in an unknown way: pass jit_compile=False to compile()",
              file=sys.stderr)  # fmt: skip
        return
    if getattr(trainer._resolve_auto_jit_compile, "__wrapped__", None) is None:
        trainer._resolve_auto_jit_compile = _resolving_to_false(trainer._resolve_auto_jit_compile, module)
        trainer.compile = _saying_explicit_true(trainer.compile)


def _resolving_to_false(original: Any, module: ModuleType) -> Any:
    @functools.wraps(original)
    def resolve(self: Any) -> bool:
        if module.backend.backend() == "tensorflow" and is_on():
            return False
        return bool(original(self))

    return resolve


def _saying_explicit_true(original: Any) -> Any:
    said = False

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal said
        if kwargs.get("jit_compile") is True and not said:
            said = True
            print("[tf_stitch] compile(jit_compile=True): XLA compiles this model, nothing of it is stitched",
                  file=sys.stderr)  # fmt: skip
        return original(self, *args, **kwargs)

    return compile
