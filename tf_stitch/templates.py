"""Implementation templates (FusionStitching section 5.2): schedules as short texts that people can read and force.

    sum_1[GRID-WARP_4,THREAD_8-CTA_32-THREAD_4]; mul_2[GRID-WARP_4,THREAD_8-CTA_32-THREAD_4];

The paper's grammar, with two steps more: a level without a number may stand beside levels with one, and CLUSTER.

    template  ::= schedule+
    schedule  ::= identifier '[' attr (',' attr)* ']' 'S'? ';'
    attr      ::= level ('-' level)*                              a dimension, its outermost tiles first
    level     ::= ('GRID' | 'CLUSTER' | 'WARP' | 'CTA' | 'THREAD') ('_' integer)?
    identifier::= a name, as sum_1, or '*'

GRID spreads over blocks, CLUSTER over blocks that can write into each other's memory, WARP over the warps of a block,
CTA over the threads of a block (under WARP: of a warp), THREAD is a thread's own loop. S keeps the op's value in memory
of the block. What a level without a number means, and what kernels have which levels, is said in tilings.py and
apply_template.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tf_stitch.errors import TemplateError

ANY_OP = "*"
"""Identifier of a template that is for whatever op leads a kernel."""
_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*|\*)|(?P<mark>[\[\],;\-]))")
_LEVEL = re.compile(r"(?P<kind>[A-Z]+)(?:_(?P<extent>[0-9]+))?")


class LevelKind(Enum):
    """What runs the tiles of a level."""

    GRID = "GRID"
    CLUSTER = "CLUSTER"
    WARP = "WARP"
    CTA = "CTA"
    THREAD = "THREAD"


@dataclass(frozen=True)
class Level:
    """One level of tiling; `extent` None leaves the number open."""

    kind: LevelKind
    extent: int | None = None

    def __str__(self) -> str:
        return self.kind.value if self.extent is None else f"{self.kind.value}_{self.extent}"


Tiling: TypeAlias = tuple[Level, ...]
"""The levels of one dimension, outermost first."""


@dataclass(frozen=True)
class OpSchedule:
    """How an op that writes memory runs: a tiling for each dimension; `shared`: into memory of the block."""

    op: str
    dims: tuple[Tiling, ...]
    shared: bool = False

    def __str__(self) -> str:
        dims = ",".join("-".join(map(str, tiling)) for tiling in self.dims)
        return f"{self.op}[{dims}]{'S' if self.shared else ''};"


@dataclass(frozen=True)
class Template:
    """Schedules of ops, none of them empty. `str` prints what `parse_template` reads."""

    schedules: tuple[OpSchedule, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.schedules))


def parse_template(text: str) -> Template:
    """The template of a text; blanks do not matter.

    Raises:
        TemplateError: the text does not follow the grammar; the message says where.
    """
    return _Parser(text).template()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._token = ""
        self._next()

    def template(self) -> Template:
        schedules = [self._schedule()]
        while self._token:
            schedules.append(self._schedule())
        return Template(tuple(schedules))

    def _schedule(self) -> OpSchedule:
        op = self._token
        if not op or op in "[],;-":
            raise self._wrong("an op's name")
        self._next()
        self._expect("[")
        dims = [self._tiling()]
        while self._token == ",":
            self._next()
            dims.append(self._tiling())
        self._expect("]")
        shared = self._token == "S"
        if shared:
            self._next()
        self._expect(";")
        return OpSchedule(op, tuple(dims), shared)

    def _tiling(self) -> Tiling:
        levels = [self._level()]
        while self._token == "-":
            self._next()
            levels.append(self._level())
        return tuple(levels)

    def _level(self) -> Level:
        found = _LEVEL.fullmatch(self._token)
        if found is None or found["kind"] not in LevelKind.__members__:
            raise self._wrong("GRID, CLUSTER, WARP, CTA or THREAD, with _NUMBER or without")
        extent = None if found["extent"] is None else int(found["extent"])
        if extent == 0:
            raise self._wrong("a number from 1")
        self._next()
        return Level(LevelKind[found["kind"]], extent)

    def _expect(self, mark: str) -> None:
        if self._token != mark:
            raise self._wrong(f"{mark!r}")
        self._next()

    def _next(self) -> None:
        rest = self._text[self._at:]
        if not rest.strip():
            self._token = ""
            return
        found = _TOKEN.match(rest)
        if found is None:
            self._token = rest.strip()[0]
            raise self._wrong("a name or one of [ ] , ; -")
        self._token = found["name"] or found["mark"]
        self._at += found.end()

    def _wrong(self, wanted: str) -> TemplateError:
        place = f"{self._token!r} before character {self._at}" if self._token else "its end"
        return TemplateError(f"template {self._text!r}: {place}, where {wanted} should be")
