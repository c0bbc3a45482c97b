"""The text that the language models here train on: documentation strings of Python's own library."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

MODULES = (
    "argparse", "ast", "asyncio.events", "asyncio.streams", "asyncio.tasks", "base64", "bisect", "calendar", "codecs",
    "collections", "concurrent.futures._base", "configparser", "contextlib", "copy", "csv", "ctypes.util",
    "dataclasses", "difflib", "doctest", "email.message", "enum", "fileinput", "fractions", "functools", "gettext",
    "glob", "heapq", "http.client", "http.cookiejar", "inspect", "ipaddress", "json", "json.decoder", "logging",
    "mailbox", "optparse", "os", "pathlib", "pdb", "pickle", "pickletools", "platform", "pprint", "queue", "random",
    "re", "shutil", "smtplib", "socket", "socketserver", "statistics", "string", "subprocess", "tarfile", "tempfile",
    "textwrap", "threading", "timeit", "tokenize", "traceback", "turtle", "typing", "unittest.case", "unittest.mock",
    "urllib.request", "uuid", "warnings", "weakref", "zipfile",
)  # fmt: skip


def read_text() -> str:
    """All documentation strings of MODULES, in source order; the same text in every run of one Python version."""
    return "\n\n".join(text for name in MODULES for text in _docstrings(name))


def _docstrings(module: str) -> list[str]:
    """Read from the source: nothing is imported, and `python -OO` makes no difference."""
    stem = Path(sysconfig.get_path("stdlib"), *module.split("."))
    path = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for text in found if text]
