"""Lines on stderr, and the progress of what takes long."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable

import pytest

from tf_stitch import messages
from tf_stitch.messages import Activity, listen, log, say


class Terminal(io.StringIO):
    """Keeps each piece that was written."""

    def __init__(self, is_terminal: bool = True) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._is_terminal = is_terminal

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(messages, "_stream", lambda: terminal)
    monkeypatch.setattr(messages, "PATIENCE", 0.05)
    monkeypatch.setattr(messages, "_TICK", 0.01)
    return terminal


def test_a_line_is_one_piece(terminal: Terminal) -> None:
    """What print writes in two may have another thread's line between them."""
    threads = [threading.Thread(target=say, args=(f"line {i}",)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(terminal.pieces) == sorted(f"[tf_stitch] line {i}\n" for i in range(20))


def test_a_channel_is_said_where_it_is_asked_for(terminal: Terminal) -> None:
    log("builds", "nobody listens")
    listen(frozenset({"builds"}))
    log("builds", "one kernel")
    log("shapes", "8 x 8")
    listen(frozenset())
    assert terminal.getvalue() == "[tf_stitch] builds: one kernel\n"


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_takes_long_is_shown_and_goes_again(terminal: Terminal) -> None:
    activity = Activity(lambda: "building kernels: 3 of 8")
    with activity.going_on(), activity.going_on():
        time.sleep(0.3)
        say("something else")
        wait(lambda: "building kernels: 3 of 8" in terminal.pieces[-1])
    wait(lambda: terminal.pieces[-1] == "\r\x1b[K")
    assert all(piece.startswith("\r") for piece in terminal.pieces if "building" in piece)
    assert "\r\x1b[K[tf_stitch] something else\n" in terminal.pieces
    assert 0.3 <= activity.seconds < 5


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    stream = Terminal(is_terminal)
    monkeypatch.setattr(messages, "_stream", lambda: stream)
    if not is_terminal:  # a log file: however long it takes
        monkeypatch.setattr(messages, "PATIENCE", 0.0)
    with Activity(lambda: "building").going_on():
        time.sleep(0.3)
    assert stream.getvalue().strip("\r\x1b[K") == ""


def test_nobody_may_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    for nobody in (None, stream):
        monkeypatch.setattr(messages, "_stream", lambda nobody=nobody: nobody)
        say("a line")
