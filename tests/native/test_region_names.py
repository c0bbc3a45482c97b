"""Which regions a node may name (op/region_names.h)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import COPY, INPUT, OUTPUT, Regions, executable

TOKEN = 1 << 61
TWO = executable([[2]], [[COPY, OUTPUT, 0, INPUT, 0, 8]])


@pytest.fixture
def session(regions: Regions) -> Iterator[Regions]:
    """Regions that only nodes with TOKEN may name."""
    regions.connect(TOKEN)
    yield regions
    regions.connect()


def run(regions: Regions, region: int, token: int = TOKEN, module: str = "") -> tf.Tensor:
    return regions.library.raw_ops.stitch_op(inputs=[tf.constant([1.0, 2.0])], variables=[], Tout=[tf.float32],
                                             region=region, token=token, module=module)[0]


def test_a_graph_of_this_process_runs_its_region(session: Regions) -> None:
    np.testing.assert_array_equal(run(session, session.add(lambda key: TWO)), [1, 2])


@pytest.mark.parametrize("token", [0, 1, TOKEN + 1, -TOKEN])
def test_a_graph_from_elsewhere_is_refused(token: int, session: Regions) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"was not rewritten in this process(.|\n)*node StitchOp"):
        run(session, session.add(lambda key: TWO), token)


@pytest.mark.parametrize(("region", "module"), [
    (-1, ""), (1 << 48, ""), (1 << 62, ""), (-(1 << 63), ""), (-1, "x"), (-(1 << 40), "x")])
def test_numbers_of_no_region_are_refused(region: int, module: str, regions: Regions) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no region"):
        run(regions, region, 0, module)


@pytest.mark.parametrize("region", [1 << 19, 1 << 20, 1 << 40, 1 << 62])
def test_a_large_number_selects_no_other_module(region: int, regions: Regions) -> None:
    with pytest.raises(tf.errors.OpError):
        run(regions, region, 0, "x")
