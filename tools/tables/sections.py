"""Tables and charts as data, and as Markdown. A cell that cannot be had is a NotMeasured; its reason goes below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.tables.results import NotMeasured

Cell = str | float | int | None
Lazy = Callable[[], Cell]


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        name: of its file.
        series: label -> a value for each of `places`, None where there is none; lines instead of bars if `lines`.
        stacked: bars of one place stand on each other.
    """

    name: str
    axis: str
    places: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    stacked: bool = False
    lines: bool = False

    @property
    def is_empty(self) -> bool:
        return all(value is None for values in self.series.values() for value in values)


@dataclass
class Section:
    """A table of a paper with our figures in it.

    Attributes:
        source: paper and section.
        notes: what the reader has to know; reasons of what was not measured are added.
    """

    title: str
    source: str
    heads: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    chart: Chart | None = None

    def add(self, *cells: Cell | Lazy, form: str = ".2f") -> None:
        """A row; numbers are printed in `form`, integers whole."""
        self.rows.append([self._text(cell, form) for cell in cells])

    def value(self, cell: Lazy) -> float | None:
        """The number, or None and a note of the reason."""
        try:
            found = cell()
        except NotMeasured as error:
            self._note(error)
            return None
        return None if found is None else float(found)

    def _text(self, cell: Cell | Lazy, form: str) -> str:
        if callable(cell):
            try:
                cell = cell()
            except NotMeasured as error:
                self._note(error)
                return "not measured"
        if cell is None:
            return "-"
        return cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else format(cell, form)

    def _note(self, error: NotMeasured) -> None:
        reason = f"not measured: {error}"
        if reason not in self.notes:
            self.notes.append(reason)

    def markdown(self, folder: str) -> str:
        """The section; its picture lies in `folder`."""
        lines = [f"### {self.title}", "", self.source, ""]
        if self.rows:
            lines += ["| " + " | ".join(self.heads) + " |", "|" + " --- |" * len(self.heads)]
            lines += ["| " + " | ".join(cells) + " |" for cells in self.rows]
        if self.chart is not None and not self.chart.is_empty:
            lines += ["", f"![{self.title}]({folder}/{self.chart.name}.png)"]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"
