"""Actions that run when a module has been imported. Must stay cheap: it is loaded at interpreter start."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class PostImportFinder(importlib.abc.MetaPathFinder):
    """Calls functions around the first execution of one module; steps aside for good after that."""

    def __init__(
        self, name: str, after: Callable[[ModuleType], None], before: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self._after = after
        self._before = before
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        # Looking a module up is not importing it: the finder stays until the module is executed.
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: importlib.abc.Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            if self._before is not None:
                self._before()
            execute(module)
            self._after(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]


def after_import(name: str, action: Callable[[ModuleType], None], before: Callable[[], None] | None = None) -> None:
    """Calls `action(module)` when module `name` has been imported: now, or when that happens."""
    if name in sys.modules:
        action(sys.modules[name])
    elif not any(isinstance(finder, PostImportFinder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, PostImportFinder(name, action, before))
