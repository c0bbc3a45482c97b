"""Kernels of clusters in the native op: ordinary launches, step by step and as nodes of a CUDA graph."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import ARENA, INPUT, OUTPUT, Regions
from tests.native.gpu_kernels import Image, entry


def has_clusters() -> bool:
    gpus = tf.config.list_physical_devices("GPU")
    return bool(gpus) and tf.config.experimental.get_device_details(gpus[0])["compute_capability"] >= (9, 0)


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_clusters(), reason="no GPU with clusters")]

# Each block of a cluster of two sends its number to the other one, and stores what it got.
SWAP = entry("swap", 2, """.shared .align 4 .f32 got;
.reg .b64 %here; .reg .b64 %there;
barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;
mov.u32 %r0, %ctaid.x; mul.wide.u32 %offset, %r0, 4;
add.s64 %a0, %a0, %offset; add.s64 %a1, %a1, %offset;
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
mov.u64 %here, got; cvta.shared.u64 %here, %here; mapa.u64 %there, %here, %r2;
ld.global.f32 %f, [%a0]; st.f32 [%there], %f;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
ld.shared.f32 %f, [got]; st.global.f32 [%a1], %f;""", by_thread=False,
             begin="griddepcontrol.launch_dependents; griddepcontrol.wait;")
PAIRS = ")\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{"
IMAGE = Image(SWAP.replace(") {", PAIRS, 1), version="8.0", target="sm_90")


def test_blocks_of_a_cluster_send_to_each_other(regions: Regions) -> None:
    steps = [IMAGE.launch("swap", source, target, blocks=8)
             for source, target in (((INPUT, 0), (ARENA, 0)), ((ARENA, 0), (ARENA, 256)), ((ARENA, 256), (OUTPUT, 0)))]
    region = regions.add(lambda key: IMAGE.executable([[8]], steps, arena=(256, 256)))
    with tf.device("/GPU:0"):
        for i in range(12):
            (got,) = regions.call(region, [tf.range(8, dtype=tf.float32) + float(i)])
            np.testing.assert_array_equal(got, np.arange(8).reshape(4, 2)[:, ::-1].reshape(8) + i)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.failures, record.error) == (1, 0, "")
