"""A region whose fallback subgraph is not whole stays TensorFlow's."""

from __future__ import annotations

import pytest

from tests.graph.clustering.test_controls import reasons, regions, rewrite
from tf_stitch.config import load_config
from tf_stitch.graph.fallback import fallback_subgraph


def test_a_region_without_a_whole_fallback_subgraph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fallback_subgraph.why_incomplete
    monkeypatch.setattr(fallback_subgraph, "why_incomplete", lambda nodes, arguments, outputs, members: (
        "it lacks a node" if "layer1/squash" in members else found(nodes, arguments, outputs, members)))
    _, entry = rewrite(load_config({}))
    refused = {name for name, reason in reasons(entry).items() if reason == "it lacks a node"}
    assert {"layer1/squash", "layer1/normalise"} <= refused
    in_regions = {name for name, region in regions(entry).items() if region is not None}
    assert "layer0/squash" in in_regions
    assert not refused & in_regions
