"""The fuzzer: programs are cut down right, differences told from rounding, crashes and hangs noticed."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.fork_server import ForkServer
from tf_stitch.config import load_config
from tools.fuzz.calling import Calling
from tools.fuzz.failures import judge, reduced, steps_of, write_script
from tools.fuzz.programs import Block, Program, Step, decode, encode
from tools.fuzz.reasons import REASONS
from tools.fuzz.reduction import reduce_program
from tools.fuzz.summary import reason_of
from tools.fuzz.verdicts import Difference, array, difference
from tools.fuzz.workers import PLAIN, CrashError, HangError, Worker

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
SPEC = {"x0": "tf.TensorSpec([2], tf.float32)"}
CALLS = (("tf.constant([1.0, 2.0])",),)


def program(*steps: Step, outputs: tuple[str, ...], **more: Any) -> Program:
    return Program(SPEC, CALLS, {}, steps, outputs, **more)


LOOP = Step(("a9",), "tf.while_loop(lambda i, *_: i < 2, block0, [0, x0])[1]",
            blocks=(Block(("p1", "p2"), (Step(("a3",), "tf.exp(p2)"), Step(("a4",), "tf.sin(a3)")), ("p1 + 1", "a4")),))
NESTED = program(Step(("a1",), "tf.tanh(x0)"), Step(("a2",), "a1 * 2.0"), LOOP, Step(("a10",), "a2 + a9"),
                 outputs=("a10", "a1"), sources=("x0",))  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(PLAIN, "cpu", tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("log") / "log")
    yield worker
    worker.close()


def result(*values: Any, state: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"calls": [[written(v) for v in values]], "state": [written(v) for v in state]}


def written(value: Any) -> list[Any]:
    array = np.asarray(value)
    return [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]


RAISES = {"calls": [{"type": "InvalidArgumentError", "message": "no"}], "state": []}
ONE = np.float32([1.0, 2.0])


@pytest.mark.parametrize(("want", "got", "kind"), [
    (result(ONE), result(ONE), None), (result(ONE), result(ONE + np.float32(1e-6)), None),
    (result(ONE), result(ONE * np.float32(1.01)), "value"), (result(ONE), result(np.float32([1.0, np.nan])), "value"),
    (result(ONE), result(ONE[:1]), "value"), (result(ONE), result(ONE.astype("f8")), "value"),
    (result(np.int32([3])), result(np.int32([4])), "value"), (result(ONE), RAISES, "raises"),
    (RAISES, result(ONE), "silent"), (RAISES, RAISES, None), (result(ONE), result(ONE, ONE), "type"),
    (result(ONE, state=(ONE,)), result(ONE, state=(ONE * 2,)), "value"),
])  # fmt: skip
def test_differences(want: dict[str, Any], got: dict[str, Any], kind: str | None) -> None:
    found = difference(want, got)
    assert (found and found.kind) == kind


def test_what_noise_changes_may_differ() -> None:
    want, got = result(ONE, np.int32([3])), result(ONE * np.float32(1.01), np.int32([4]))
    assert difference(want, got, [want]) is not None
    assert difference(want, got, [result(ONE * np.float32(1.002), np.int32([5]))]) is None
    assert difference(want, result(ONE * np.float32(1.5), np.int32([3])),
                      [result(ONE * np.float32(1.002), np.int32([3]))]) is not None  # fmt: skip


def test_what_is_infinite_is_not_anything() -> None:
    want = result(np.float32([np.inf, 1.0]))
    assert difference(want, result(np.float32([5.0, 1.0]))) is not None
    assert difference(want, result(np.float32([5.0, 1.0])), [want]) is not None
    assert difference(want, result(np.float32([np.nan, 1.0])), [want]) is not None
    assert difference(want, want, [result(np.float32([5.0, 1.0]))]) is None


def test_half_types_may_be_as_wide_as_kernels_keep_them() -> None:
    want, wide = result(np.float16([np.inf, 1.0])), result(np.float32([70000.0, 1.0]))
    got = result(np.float16([60000.0, 1.0]))
    assert difference(want, got, [want]) is not None
    assert difference(want, got, [want, wide]) is None
    assert difference(want, result(np.float16([60000.0, 1.5])), [want, wide]) is not None
    halves = Program({"x0": "tf.TensorSpec([2], tf.bfloat16)"}, (), {}, (), ("x0",))
    assert "float16" not in (halves.wide() or "float16")
    assert NESTED.wide() is None


@pytest.mark.parametrize(("text", "least"), [
    ("1.0 + tf.math.erf(x0 - 5.0)", 1e-2),  # cancels inside of one step
    ("tf.compat.v1.nn.fused_batch_norm(tf.reshape(tf.tile(x0, [4000]), [1, 1, -1, 1]), [2.0], [0.0])[2]", 1e-6),
])  # fmt: skip
def test_noise_is_in_each_op_of_a_call(plain: Worker, text: str, least: float) -> None:
    source = program(Step(("a1",), text), outputs=("a1",)).source()
    exact = np.concatenate([array(v).ravel() for v in plain.ask(SECONDS, do="run", source=source)["calls"][0]])
    runs = [plain.ask(SECONDS, do="run", source=source, noise=n)["calls"][0][0] for n in (1, 2, 3, 4)]
    assert max(np.max(np.abs(array(run).ravel() / exact - 1)) for run in runs) > least


def test_a_program_survives_json() -> None:
    assert decode(json.loads(json.dumps(encode(NESTED)))) == NESTED


def test_a_program_is_cut_down_to_the_step_that_fails() -> None:
    def fails(candidate: Program) -> bool:
        return "tf.sin(" in candidate.source()

    small = reduce_program(NESTED, fails, lambda *_: None)
    assert steps_of(small.steps) == 2  # the loop, and the sine in it
    assert not small.sources
    small = reduce_program(NESTED, lambda p: "a1 = tf.tanh" in p.source(), lambda *_: None)
    assert small.source().splitlines()[3:] == ["    a1 = tf.tanh(x0)", "    return [a1]", "", *CALLED]


CALLED = ["CALLS = [", "    [tf.constant([1.0, 2.0])],", "]", "STATE = []"]


def test_a_step_that_is_cut_out_leaves_its_value(plain: Worker) -> None:
    """Between a worker that is right and one that is not: every asinh is taken for wrong. They share a process."""

    class Wrong(Worker):
        def ask(self, seconds: float, **request: Any) -> dict[str, Any]:
            request["source"] = request["source"].replace("tf.asinh(", "tf.sinh(")
            return plain.ask(seconds, **request)

    steps = (Step(("a1",), "tf.exp(x0)"), Step(("a2",), "tf.reverse(a1, [0])"), Step(("a3",), "tf.asinh(a2)", True),
             Step(("a4",), "tf.sqrt(a3)", True))  # fmt: skip
    wrong = Wrong(PLAIN, "cpu", plain._log.parent, plain._log.with_name("other"))
    whole = program(*steps, outputs=("a4",))
    found, _, _ = judge(whole, plain, wrong, SECONDS)
    assert found is not None
    small = reduced(whole, found.kind, plain, wrong, SECONDS, 60)
    assert [step.text for step in small.steps] == ["tf.asinh(a2)"]
    assert small.calls[0] == ("tf.cast(np.array([7.389056205749512, 2.7182817459106445]), tf.float32)",)


def test_a_script_runs_by_itself(plain: Worker, fork_server: ForkServer, tmp_path: Path) -> None:
    found, _, _ = judge(program(Step(("a1",), "x0 + 1.0"), outputs=("a1",)), plain, plain, SECONDS)
    assert found is None
    path = write_script(NESTED, "default", Difference("value", "said"), "ops seed 7", tmp_path)
    done = fork_server.completed(path, [], os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}, tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3  # two outputs, a gradient


def test_a_crash_and_a_hang_are_noticed(plain: Worker) -> None:
    with pytest.raises(CrashError, match="SIGABRT"):
        plain.ask(SECONDS, do="run", source="import os\nos.abort()")
    plain.ask(SECONDS, do="run", source="pass")  # starts it
    with pytest.raises(HangError):
        plain.ask(1, do="run", source="import time\ntime.sleep(60)")
    assert plain.ask(SECONDS, do="run", source="pass")["failed"].startswith("trace")  # no program in it


def test_a_seed_is_always_the_same_program(plain: Worker) -> None:
    first, again = (plain.ask(SECONDS, do="draw", generator="ops", seed=11)["program"] for _ in range(2))
    assert first == again


COUNTING = Program(
    {"x0": "tf.TensorSpec([], tf.bool)"}, (("tf.constant(True)",), ("tf.constant(False)",)),
    {"v1": "tf.Variable(0)", "v2": "tf.Variable(1.0)"},
    (Step((), "with tf.control_dependencies([tf.debugging.Assert(x0, ['no'])]): v1.assign_add(1)"),
     Step((), "v2.assign(v2 * 2.0)")), (), counters=("v1",),
    schedule=(("wrap", "retraced"), ("calls", 0, 3, 0), ("raise",), ("threads", 2, 5, 0), ("drop",), ("wait",)),
)  # fmt: skip


def test_calls_of_a_schedule_are_counted(plain: Worker) -> None:
    answer = plain.ask(SECONDS, do="run", source=COUNTING.source())
    assert [isinstance(call, dict) for call in answer["calls"][::2]] == [False] * 3 + [True] + [False] * 4
    states = [[float(array(value)) for value in state] for state in answer["calls"][1::2]]
    assert states == [[1, 2], [2, 4], [3, 8], [3, 1], [13, 1], [15, 4], [15, 4], [15, 1]], (
        "each call counts, one that raises does not, and others begin each action anew")
    assert not answer["failed"]


def test_an_update_too_many_is_noticed(plain: Worker) -> None:
    source = COUNTING.source()
    want, got = (plain.ask(SECONDS, do="run", source=text) for text in (source, source.replace("_add(1)", "_add(2)")))
    found = difference(want, got)
    assert found is not None
    assert found.kind == "value"


def test_threads_call_at_once_where_there_are_kernels() -> None:
    class Kernels:
        def wait(self, seconds: float) -> bool:
            return False

        def changed(self) -> int:
            return len(names)

    names: set[int] = set()
    meeting = threading.Barrier(3, timeout=60)

    def met(x: Any) -> Any:
        meeting.wait()
        names.add(threading.get_ident())
        return tf.constant(x)

    calling = Calling(met, [[1.0], [2.0]], [], [], Kernels())
    _, failed = calling.follow([("threads", 3, 2, 1), ("wait",)])
    assert failed == "TimeoutError: kernels are not there after 50 s"
    assert len(names) == 3
    assert calling.changed == {"threads": 3, "wait": 0}


def test_a_schedule_is_cut_down() -> None:
    small = reduce_program(COUNTING, lambda p: "'threads'" in p.source(), lambda *_: None)
    assert small.schedule == (("threads", 2, 5, 0),)
    assert not small.steps


def test_training_steps_write_and_may_raise(plain: Worker) -> None:
    answer = plain.ask(SECONDS, do="draw", generator="training", seed=7)
    step = decode(answer["program"])
    assert len(step.counters) == 2
    assert step.calls[-1][-1] == "tf.constant(False)"
    assert {"wrap", "calls", "wait", "raise", "threads"} <= {action[0] for action in step.schedule}
    assert decode(json.loads(json.dumps(encode(step)))) == step
    assert not answer["result"]["failed"]


@pytest.mark.of_today
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("generator", "seconds", "chunk"), [
    ("ops", 120, 4), pytest.param("training", 120, 3, marks=pytest.mark.exhaustive)])
def test_todays_programs(tmp_path: Path, generator: str, seconds: int, chunk: int) -> None:
    """Some programs that nobody has run before: the seed is the date's. The command runs them again."""
    first = int(dt.date.today().strftime("%y%m%d")) * 10_000
    command = [sys.executable, "-m", "tools.fuzz", f"--generator={generator}", f"--seeds={first}:{first + 2 * chunk}",
               f"--seconds={seconds}", f"--chunk={chunk}",
               f"--cache={load_config().cache_dir}", f"--failures={tmp_path}",
               f"--state={tmp_path / 'state'}"]
    print(" ".join(command))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *(p.read_text() for p in tmp_path.glob("*.py"))])
    assert len((tmp_path / "state").read_text().splitlines()) > 0


def test_each_program_that_differs_has_a_reason() -> None:
    """In the committed table; one that has none may be a wrong result."""
    failures = json.loads((ROOT / "benchmarks" / "fuzz.json").read_text())["failures"]
    assert all(map(reason_of, failures))
    known = {(f["generator"], f["device"], f["seed"]) for f in failures}
    assert known == REASONS.keys(), "a reason is for a program of the table"
