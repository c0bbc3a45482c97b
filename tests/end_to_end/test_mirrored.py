"""Keras under MirroredStrategy, on two logical CPUs: as in TensorFlow, and cut by collectives alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

pytestmark = pytest.mark.timeout(600)


def trained(run: Runner, model: str, stitch: str) -> tuple[Run, Any]:
    done = run(PROGRAMS / "mirrored.py", model, stitch=stitch)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["replicas"] == 2
    assert len(said["losses"]) == 50
    assert said["copies"] > 10
    assert said["differ"] == 0  # the replicas have the same variables, bit for bit
    return done, said["losses"]


def step_of(done: Run) -> list[Any]:
    """The nodes of the training step."""
    assert done.report is not None
    [step] = [g for g in done.report["graphs"] if "multi_step" in g["graph"] and g["regions"]]
    return list(step["nodes"])


def regions_of(done: Run, part: str) -> set[int]:
    """Regions of the training step that hold a node whose name has this in it."""
    return {n["region"] for n in step_of(done) if part in n["name"]} - {None}


def waits_for(done: Run, region: int) -> set[int]:
    """Regions of the training step that have to run before a region."""
    nodes = step_of(done)
    members: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        if node["region"] is not None:
            members.setdefault(node["region"], []).append(place)
    seen, pending = set(members[region]), list(members[region])
    while pending:
        for place in nodes[pending.pop()]["inputs"]:
            together = {place, *members.get(nodes[place]["region"], ())} - seen
            seen |= together
            pending += together
    return {nodes[place]["region"] for place in seen} - {None, region}


def test_a_transformer(forked: Runner) -> None:
    """Forward and backward pass of a replica are one region, and so is its optimizer. TensorFlow gathers gradients of
    embeddings in a branch, which has to keep nothing else apart."""
    _, want = trained(forked, "gpt", "")
    done, losses = trained(forked, "gpt", "1")
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    passes = regions_of(done, "/functional_1/")
    assert len(passes) == len(regions_of(done, "/replica_1/")) * 2 == 2
    updates = regions_of(done, "/Sqrt")
    assert len(updates - passes) == len(updates) == 2
    assert all(waits_for(done, region).isdisjoint(passes) for region in passes)
    assert all(waits_for(done, region).isdisjoint(updates) for region in updates)


def test_a_network_with_synchronized_batch_norm(forked: Runner) -> None:
    """Each batch norm waits for the other replica, in TensorFlow as here."""
    _, want = trained(forked, "cnn", "")
    done, losses = trained(forked, "cnn", "1")
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    assert len(regions_of(done, "/functional_1/")) <= 20
