"""Trains over a parameter server and two workers, each a process of its own on loopback; prints the losses, those of
the same steps without a cluster, and how many nodes each worker stitched.

parameter_server.py                            the coordinator, which starts and ends the others
parameter_server.py <job> <task> <cluster>     a server, until its standard input ends

The parameter server and the second worker are plain TensorFlow.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

STEPS = 6
PLAIN = ("ps0", "worker1")


def serve(job: str, task: str, cluster: str) -> None:
    # Kept alive until the process ends.
    server = tf.distribute.Server(json.loads(cluster), job_name=job, task_index=int(task), protocol="grpc")
    print("serves", flush=True)
    sys.stdin.read()
    del server


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Model:
    """A gated layer, whose steps are those of gradient descent with momentum."""

    def __init__(self) -> None:
        self.weight = tf.Variable(np.linspace(-1, 1, 16 * 16, dtype=np.float32).reshape(16, 16))
        self.bias = tf.Variable(tf.zeros([16]))
        self.velocity = tf.Variable(tf.zeros([16, 16]))

    def step(self, number: tf.Tensor) -> tf.Tensor:
        x = tf.sin(tf.reshape(tf.range(8.0 * 16), [8, 16]) + tf.cast(number, tf.float32))
        with tf.GradientTape() as tape:
            y = tf.matmul(x, self.weight) + self.bias
            y = tf.nn.sigmoid(y) * tf.tanh(y)
            loss = tf.reduce_mean(tf.square(y - 0.5 * x))
        to_weight, to_bias = tape.gradient(loss, [self.weight, self.bias])
        self.velocity.assign(0.9 * self.velocity + to_weight)
        self.weight.assign_sub(0.5 * self.velocity)
        self.bias.assign_sub(0.5 * to_bias)
        return loss


def train(cluster: dict[str, list[str]]) -> list[float]:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model()

    @tf.function
    def step(number: tf.Tensor) -> Any:
        return strategy.run(model.step, (number,))

    losses = []
    for number in range(STEPS):
        loss = coordinator.schedule(step, (tf.constant(number),))
        coordinator.join()
        losses.append(float(loss.fetch()))
    # A graph of the coordinator's own that reaches into another process.
    with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
        far = tf.Variable(tf.ones([16, 16]))

    @tf.function
    def reach(x: tf.Tensor) -> tf.Tensor:
        with tf.device(far.device):
            far.assign_sub(tf.nn.softmax(tf.tanh(far * x) * 2.0))
        return tf.reduce_sum(tf.sigmoid(x) * tf.tanh(x) + far)

    return losses + [float(reach(tf.ones([16, 16]))) for _ in range(2)]


def alone() -> list[float]:
    """The same without a cluster, op by op."""
    model, far, x = Model(), tf.Variable(tf.ones([16, 16])), tf.ones([16, 16])
    losses = [float(model.step(tf.constant(number))) for number in range(STEPS)]
    for _ in range(2):
        far.assign_sub(tf.nn.softmax(tf.tanh(far * x) * 2.0))
        losses.append(float(tf.reduce_sum(tf.sigmoid(x) * tf.tanh(x) + far)))
    return losses


def main() -> None:
    ports = free_ports(4)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    cluster = {"chief": addresses[:1], "ps": addresses[1:2], "worker": addresses[2:]}
    wanted = alone()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = {}
        for job, task in (("ps", 0), ("worker", 0), ("worker", 1)):
            name = f"{job}{task}"
            environment = {k: v for k, v in os.environ.items() if not (name in PLAIN and k == "TF_STITCH")}
            if "TF_STITCH" in environment:
                environment["TF_STITCH_REPORT"] = f"{folder}/{name}"
            servers[name] = subprocess.Popen([sys.executable, __file__, job, str(task), json.dumps(cluster)],
                                             env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(servers[name].kill)
        assert all(server.stdout is not None and server.stdout.readline() == "serves\n" for server in servers.values())
        losses = train(cluster)
        for server in servers.values():
            server.communicate(timeout=30)
        stitched = {name: sum(graph["stitched_nodes"] for graph in json.loads(path.read_text())["graphs"])
                    for name in servers if (path := Path(folder) / name / "report.json").exists()}
    print(json.dumps({"losses": losses, "alone": wanted, "stitched": stitched}))


if __name__ == "__main__":
    serve(*sys.argv[1:]) if len(sys.argv) > 1 else main()
