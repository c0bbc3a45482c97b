"""Which devices belong to this process."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_stitch.plugin import own_devices
from tf_stitch.plugin.own_devices import is_own_device, own_tasks

CPU = "/job:{}/replica:0/task:{}/device:CPU:0"
PARTIAL = ("", "/device:CPU:0", "/cpu:0", "/device:GPU:1", "/replica:0/device:CPU:0")


def test_a_process_that_belongs_to_no_cluster() -> None:
    assert own_tasks() == {("localhost", 0)}
    assert is_own_device(CPU.format("localhost", 0))
    assert is_own_device("/job:localhost/device:CPU:0")
    assert all(map(is_own_device, PARTIAL))
    assert not is_own_device(CPU.format("worker", 0))
    assert not is_own_device("/job:ps")


def test_a_process_that_serves_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """What names no task may be another one's."""
    monkeypatch.setattr(own_devices, "_served", {("worker", 1)})
    assert is_own_device(CPU.format("worker", 1))
    assert is_own_device(CPU.format("localhost", 0))
    assert not is_own_device(CPU.format("worker", 0))
    assert not is_own_device(CPU.format("ps", 1))
    assert not is_own_device("/job:worker/device:CPU:0")
    assert not any(map(is_own_device, PARTIAL))


def test_servers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_devices, "_served", set())
    monkeypatch.setattr(tf.distribute.Server, "__init__", tf.distribute.Server.__init__)
    own_devices.notice_servers()
    server = tf.distribute.Server({"ps": ["127.0.0.1:0"]}, job_name="ps", task_index=0, start=False)
    assert own_tasks() == {("localhost", 0), ("ps", 0)}
    del server
