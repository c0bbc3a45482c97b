"""The words of an executable, as the native op reads them."""

from __future__ import annotations

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.placement.executable import (
    BufferRef,
    Copy,
    DeviceLaunch,
    Executable,
    HostLaunch,
    encode,
)
from tf_stitch.placement.executable_format import ABI_VERSION, Space, StateMode

X, Y, V = BufferRef(Space.INPUT, 0), BufferRef(Space.OUTPUT, 1), BufferRef(Space.VARIABLE, 2)
F, A = BufferRef(Space.FRESH, 0), BufferRef(Space.ARENA, 512)


def executable(*steps: HostLaunch | DeviceLaunch | Copy) -> Executable:
    return Executable(("x:0",), ("v",), (TensorType(DType.F32, (2, 3)), TensorType(DType.I64, ())),
                      ((2, StateMode.FRESH), (0, StateMode.IN_PLACE)), (768, 256), steps, None, updated=((1, 0),))


def test_header() -> None:
    words = encode(executable(), {})
    assert words[:5] == [ABI_VERSION, 2, 768, 256, 2]
    assert words[5:9] == [2, 2, 3, 0], "rank and dims of each output"
    assert words[9:14] == [2, 2, 1, 0, 0], "variables with their modes"
    assert words[14:17] == [1, 1, 0], "the output that is an input updated"


def test_host_launch() -> None:
    words = encode(executable(HostLaunch("k", (X, A), (7, 9))), {"k": 0x1234})
    assert words[17:] == [0, 1, 0, 0x1234, 2, 0, 0, 4, 512, 2, 7, 9]


def test_device_launch_and_copy() -> None:
    words = encode(executable(DeviceLaunch("k", 7, 128, 4096, (V,), (5,)), Copy(Y, F, 24)), {"k": 0x99},
                   {(0xDEF, 5): ["other"], (0xABC, 77): ["k"]})
    assert words[17:22] == [2, 0xDEF, 5, 0xABC, 77]
    rest = words[22:]
    assert rest[0] == 2
    assert rest[1:9] == [1, 1, 0x99, 7, 128, 4096, 0, 1]
    assert rest[9:] == [2, 2, 1, 5, 2, 1, 1, 3, 0, 24]


def test_a_cooperative_launch_gets_a_counter() -> None:
    launch = DeviceLaunch("k", 264, 512, 0, (A, BufferRef(Space.BARRIER, 132)), cooperative=True)
    words = encode(executable(launch), {"k": 0x99}, {(0xABC, 77): ["k"]})
    assert words[21:27] == [1, 0, 0x99, 264, 512, 0]
    assert words[27:] == [1, 2, 4, 512, 5, 132, 0]


def test_an_unknown_kernel_is_an_error() -> None:
    with pytest.raises(KeyError):
        encode(executable(HostLaunch("missing", ())), {})


def test_all_words_are_integers() -> None:
    assert all(type(w) is int for w in encode(executable(HostLaunch("k", (X, Y, V, F, A)), Copy(V, X, 4)), {"k": 1}))
