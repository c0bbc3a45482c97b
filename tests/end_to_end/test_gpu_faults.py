"""The programs of test_faults.py on a GPU, whose kernels NVRTC builds, and one without cuBLASLt."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, SMALL, Runner, check

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

SHARED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "NVIDIA_TF32_OVERRIDE": "0"}
"""Two processes have the GPU, and matmuls the same precision with either form."""


def test_the_interpreter_leaves_during_a_build(run: Runner, cache: Path) -> None:
    done = run(PROGRAMS / "leaves_while_building.py", TF_STITCH_CACHE=str(cache), **SHARED)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "left" in done.stdout


def test_fork_after_import(run: Runner) -> None:
    plain, stitched = (run(PROGRAMS / "forks.py", stitch=stitch, **SHARED) for stitch in ("", "1"))
    check(plain, json.loads(plain.stdout))
    check(stitched, json.loads(plain.stdout))
    assert stitched.stitched("step") > 0


def test_two_processes_with_one_cold_cache(run: Runner, cache: Path) -> None:
    plain = run(SMALL, stitch="", **SHARED)
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda _: run(SMALL, TF_STITCH_CACHE=str(cache), **SHARED), range(2)):
            check(done, json.loads(plain.stdout))
            assert done.reasons() == ""
            assert done.stitched("train") > 0
    assert not list((cache / "kernels").glob(".tmp_*"))


def test_many_threads_while_regions_are_built(run: Runner, cache: Path) -> None:
    done = run(PROGRAMS / "many_threads.py", TF_STITCH_CACHE=str(cache), **SHARED)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 1e-5
    assert done.reasons() == ""


def test_without_cublas_matmuls_are_tensorflows(run: Runner, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import tensorflow
from tf_stitch.native.bindings import OpLibrary
OpLibrary.load_cublas_lt = lambda self, files: "no cuBLASLt library"
exec(compile(open({str(PROGRAMS / "many_threads.py")!r}).read(), "many_threads.py", "exec"))
""")
    done = run(program, **SHARED)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 1e-5
    assert done.report is not None
    assert [(f["stage"], f["count"]) for f in done.report["fallbacks"]] == [("library", 1)], done.reasons()
    assert done.report["regions"], "other nodes are stitched"
    assert all(region["fallbacks"] == 0 for region in done.report["regions"])
    assert not [k for k in done.report["kernels"] if k["rule"] == "library"]


CONVOLVES = """
import json, numpy as np, tensorflow as tf
random = np.random.default_rng(0)
x, w = (tf.constant(random.standard_normal(s).astype(np.float32)) for s in ((2, 9, 9, 8), (3, 3, 8, 16)))
@tf.function
def step(x, w):
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        loss = tf.reduce_sum(tf.sin(tf.nn.conv2d(tf.tanh(x), w, 1, "SAME")) * 0.5)
    return [tf.reduce_sum(g * g) for g in (loss, *tape.gradient(loss, (x, w)))]
print(json.dumps([float(v) for _ in range(4) for v in step(x, w)]))
"""


@pytest.mark.parametrize("why", ["no cuDNN 9 library", "this cuDNN has version 8907, not 9"])
def test_without_such_a_cudnn_convolutions_are_tensorflows(run: Runner, tmp_path: Path, why: str) -> None:
    """tests/native/test_cudnn_library.py: who says so."""
    plain, program = tmp_path / "plain.py", tmp_path / "program.py"
    plain.write_text(CONVOLVES)
    program.write_text(f"""
import tensorflow
from tf_stitch.native.bindings import OpLibrary
OpLibrary.load_cudnn = lambda self, files: {why!r}
{CONVOLVES}""")
    wanted, done = run(plain, stitch="", **SHARED), run(program, **SHARED)
    assert done.returncode == 0, done.stderr[-3000:]
    np.testing.assert_allclose(json.loads(done.stdout), json.loads(wanted.stdout), rtol=1e-4)
    assert done.report is not None
    [entry] = [f for f in done.report["fallbacks"] if f["stage"] == "library"]
    assert (entry["where"], entry["count"], entry["reason"]) == ("convolutions", 1, f"{why}: regions hold none")
    assert done.report["regions"], "other nodes are stitched"


def test_memory_that_runs_out_in_a_step(run: Runner) -> None:
    """TensorFlow's error, as without tf_stitch; the variable has changed in neither, or in the steps that ended."""
    program = PROGRAMS / "gpu_runs_out.py"
    plain, done = run(program, 6000, stitch=""), run(program, 6000)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    first, after_first, second, after_second, third, after_third = json.loads(done.stdout)
    expected = json.loads(plain.stdout)
    assert expected[2] == "out of memory", "the test needs a step that is too large for plain TensorFlow"
    np.testing.assert_allclose(first, expected[0], rtol=1e-5)
    np.testing.assert_allclose(after_first, expected[1], rtol=1e-5)
    if second == "out of memory":
        assert after_second == after_first, "a step that failed changes nothing"
        np.testing.assert_allclose(third, expected[4], rtol=1e-5)
        np.testing.assert_allclose(after_third, expected[5], rtol=1e-5)


def test_a_cuda_error_of_the_programs_own(run: Runner) -> None:
    """It is TensorFlow's to raise, or ends the process, as without tf_stitch; no result is made up."""
    program = PROGRAMS / "gpu_error_of_another.py"
    plain, done = run(program, stitch=""), run(program)
    assert (done.returncode == 0) == (plain.returncode == 0), done.stderr[-3000:]
    if done.returncode == 0:
        first, second = json.loads(done.stdout)
        np.testing.assert_allclose(first, json.loads(plain.stdout)[0], rtol=1e-5)
        assert isinstance(second, str), "a context is of no use after such an error"
