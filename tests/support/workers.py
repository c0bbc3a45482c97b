"""Runs test files in several processes that are forked off the one which has collected all tests: each that collects
for itself imports TensorFlow and 550 modules, and rewrites their assertions in a new clone.

A worker takes the next file when it is done with one. A file's tests stay together, since they share fixtures.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import signal
import socket
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import pytest


def run_in_workers(session: pytest.Session, count: int, starter: str | None = None) -> None:
    """Runs all tests of a session in `count` processes; this one reports.

    Args:
        starter: the file whose import has TensorFlow start threads, if it is known.

    Raises:
        pytest.Session.Failed, pytest.Session.Interrupted: as pytest's own loop (--maxfail, for example).
        pytest.UsageError: TensorFlow has started threads, which no fork has.
    """
    if tensorflow_has_started():
        raise pytest.UsageError(f"{starter or 'a test module'} has TensorFlow run an op when it is imported: do that "
                                "in a test or a fixture")
    session.config._tmp_path_factory.getbasetemp()  # one for all
    Workers(session).run(count)


def tensorflow_has_started() -> bool:
    module = sys.modules.get("tensorflow.python.eager.context")
    context = module and module.context_safe()
    return context is not None and context._context_handle is not None


class Workers:
    """Those of one session.

    Attributes:
        _waiting: first and last numbers of the tests of each file, in order.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        numbers = itertools.groupby(range(len(session.items)), key=lambda number: session.items[number].path)
        self._waiting = deque((found[0], found[-1]) for found in (list(group) for _, group in numbers))
        self._selector = DefaultSelector()

    def run(self, count: int) -> None:
        try:
            for _ in range(min(count, len(self._waiting))):
                self._start()
            while self._selector.get_map():
                for key, _ in self._selector.select():
                    self._read(key.data)
        finally:
            for key in self._selector.get_map().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(key.data.pid, signal.SIGINT)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        gc.freeze()
        pid = os.fork()
        if not pid:
            for key in self._selector.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]  # else no worker sees the end of its orders
            ours.close()
            _work(self._session, theirs)
        theirs.close()
        worker = _Worker(pid, ours)
        self._selector.register(ours, EVENT_READ, worker)
        self._order(worker)

    def _order(self, worker: _Worker) -> None:
        """The next file, or the end."""
        if self._waiting:
            first, worker.last = self._waiting.popleft()
            worker.connection.sendall(f"{first} {worker.last}\n".encode())
        else:
            worker.connection.shutdown(socket.SHUT_WR)

    def _read(self, worker: _Worker) -> None:
        data = worker.connection.recv(1 << 16)
        if not data:
            self._end(worker)
        *lines, worker.rest = (worker.rest + data).split(b"\n")
        for line in lines:
            (kind, content), = json.loads(line).items()
            getattr(self, f"_{kind}")(worker, content)
        if reason := self._session.shouldfail:
            raise self._session.Failed(reason)
        if reason := self._session.shouldstop:
            raise self._session.Interrupted(reason)

    def _end(self, worker: _Worker) -> None:
        """Of a process that was not told to end, the test that it ran has failed; another one goes on behind it."""
        self._selector.unregister(worker.connection)
        worker.connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.last is None and status == 0:
            return
        item = self._session.items[worker.running]
        said = f"the process that ran this test ended by itself (exit {status})"
        self._session.ihook.pytest_runtest_logreport(report=pytest.TestReport(
            item.nodeid, item.location, {}, "failed", said, "call"))  # type: ignore[arg-type]
        if worker.last is not None and worker.running < worker.last:
            self._waiting.appendleft((worker.running + 1, worker.last))
        if self._waiting:
            self._start()

    # What workers say.
    def _begun(self, worker: _Worker, number: int) -> None:
        worker.running = number

    def _report(self, worker: _Worker, content: dict[str, Any]) -> None:
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=content)
        if isinstance(report.longrepr, list):
            report.longrepr = tuple(report.longrepr)  # of a skip, as pytest has it
        self._session.items[worker.running].ihook.pytest_runtest_logreport(report=report)

    def _finished(self, worker: _Worker, number: int) -> None:
        item = self._session.items[number]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _warned(self, worker: _Worker, content: dict[str, Any]) -> None:
        message = warnings.WarningMessage(UserWarning(content["said"]), UserWarning, content["file"], content["line"])
        self._session.config.hook.pytest_warning_recorded.call_historic(kwargs={
            "warning_message": message, "when": "runtest", "nodeid": content["nodeid"], "location": None})

    def _done(self, worker: _Worker, last: int) -> None:
        worker.last = None
        self._order(worker)


class _Worker:
    """As its parent sees it.

    Attributes:
        running: the number of the test.
        last: of the file's tests, or None when it is done with them.
        rest: what was read of a line that has not ended.
    """

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid, self.connection, self.rest = pid, connection, b""
        self.running = 0
        self.last: int | None = None


class _Speaker:
    """A plug-in of a worker: what it reports goes to the parent.

    Attributes:
        _knows_past: the parent's warnings have been repeated to it, as pytest does to all that are registered.
    """

    def __init__(self, connection: socket.socket, config: pytest.Config) -> None:
        self._connection, self._config = connection, config
        self._knows_past = False
        config.pluginmanager.register(self)
        self._knows_past = True

    def say(self, kind: str, content: Any) -> None:
        self._connection.sendall(json.dumps({kind: content}).encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.say("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        if self._knows_past:
            self.say("warned", {"said": f"{warning_message.category.__name__}: {warning_message.message}",
                                "file": warning_message.filename, "line": warning_message.lineno, "nodeid": nodeid})


def _work(session: pytest.Session, connection: socket.socket) -> None:
    """Runs what the parent orders, and ends this process without pytest's own end."""
    status = 1
    try:
        _be_silent(session.config)
        speaker = _Speaker(connection, session.config)
        with contextlib.suppress(KeyboardInterrupt):
            for number, following in _ordered(session, connection, speaker):
                item = session.items[number]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                speaker.say("finished", number)
        session._setupstate.teardown_exact(None)
        status = 0
    except BaseException:  # it ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ordered(session: pytest.Session, connection: socket.socket, speaker: _Speaker
             ) -> Iterator[tuple[int, pytest.Item | pytest.Session]]:
    """Tests, and what stays set up after each: behind a file's last one, what is the session's."""
    for order in connection.makefile():
        first, last = map(int, order.split())
        for number in range(first, last + 1):
            speaker.say("begun", number)
            yield number, session.items[number + 1] if number < last else session
        speaker.say("done", last)


def _be_silent(config: pytest.Config) -> None:
    """The parent writes to the terminal; what tests write is captured for this process alone."""
    config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=False)
