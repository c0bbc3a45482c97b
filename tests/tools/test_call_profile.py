"""Sampled stacks of this process's own threads."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

from tools.profiling.stacks import hottest, sample, thread_seconds, tree
from tools.profiling.symbols import _short


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ builds the sampler")
def test_running_and_waiting_threads() -> None:
    ready, end = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        end.wait()

    def work() -> None:
        stop = time.monotonic() + 1.0
        while time.monotonic() < stop:
            sum(range(1000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    ready.wait()
    me, other = threading.get_native_id(), waiting.native_id
    assert other is not None
    before = thread_seconds()
    stacks = sample(work, [me, other], microseconds=1000)
    spent = {thread: seconds - before[thread][1] for thread, (_, seconds) in thread_seconds().items()
             if thread in before}  # fmt: skip
    end.set()
    waiting.join()
    assert spent[other] < 0.2 < spent[me] + 0.1
    assert len(stacks[me]) > 50
    assert len(stacks[other]) > 50
    assert sum("_PyEval_EvalFrameDefault" in stack for stack in stacks[me]) > 0.9 * len(stacks[me])
    assert len({stack[-1] for stack in stacks[other]}) < len({stack[-1] for stack in stacks[me]}), "it only waits"


def test_shares_of_a_call() -> None:
    stacks = [("main", "run", "a"), ("main", "run", "b", "c"), ("main", "run", "b", "c"), ("main", "run", "b", "d")]
    assert list(hottest(stacks, 8.0, 2.0)) == ["     4.0  c", "     2.0  a", "     2.0  d"]
    assert list(hottest(stacks, 8.0, 3.0)) == ["     4.0  c"]
    assert list(tree(stacks, 8.0, 2.0)) == ["     8.0  run", "     6.0    b", "     4.0      c", "     2.0      d",
                                            "     2.0    a"]  # fmt: skip


@pytest.mark.parametrize(("name", "short"), [
    ("tensorflow::Tensor::~Tensor()", "Tensor::~Tensor"),
    ("std::vector<int, std::allocator<int> >::push_back(int const&)", "vector::push_back"),
    ("tf_stitch::(anonymous namespace)::StitchOp::Run(tensorflow::OpKernelContext*)", "tf_stitch::@::StitchOp::Run"),
    ("f(int)::{lambda(int)#1}::operator()(int) const", "f::{lambda#1}::operator[]"),
])  # fmt: skip
def test_names(name: str, short: str) -> None:
    assert _short(name) == short
