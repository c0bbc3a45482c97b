"""What the op hands to Python where neither kernels nor the region's own nodes can run natively: one call's values."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import NativeError

DIMS = ctypes.POINTER(ctypes.c_int64)
"""C's type of dimensions, and of other lists of words."""

# TensorFlow's DataType -> NumPy.
_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32), 2: np.dtype(np.float64), 3: np.dtype(np.int32), 4: np.dtype(np.uint8),
    5: np.dtype(np.int16), 6: np.dtype(np.int8), 8: np.dtype(np.complex64), 9: np.dtype(np.int64),
    10: np.dtype(np.bool_), 14: np.dtype(ml_dtypes.bfloat16), 17: np.dtype(np.uint16), 18: np.dtype(np.complex128),
    19: np.dtype(np.float16), 22: np.dtype(np.uint32), 23: np.dtype(np.uint64),
    24: np.dtype(ml_dtypes.float8_e5m2), 25: np.dtype(ml_dtypes.float8_e4m3fn),
}  # fmt: skip


class FallbackCall:
    """One run of a region by other means than its kernels.

    `inputs` and `variables` are views of memory that is the caller's only until the callback returns: copy what is
    kept. `same_as` gives for each variable the first one that is the same resource: itself, unless a program passes
    one variable twice.
    """

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self._library = library
        self._handle = handle
        self.device: int = library.tfs_call_device(handle)  # -1 for the CPU, else the CUDA ordinal
        self.reason: str = library.tfs_call_reason(handle).decode(errors="replace")
        self.num_outputs: int = library.tfs_call_num_outputs(handle)
        num_inputs: int = library.tfs_call_num_inputs(handle)
        num_variables: int = library.tfs_call_num_variables(handle)
        values = [self._value(i) for i in range(num_inputs + num_variables)]
        self.inputs = values[:num_inputs]
        self.variables = values[num_inputs:]
        self.same_as = tuple(int(library.tfs_call_same_as(handle, i)) for i in range(num_variables))

    def set_output(self, index: int, array: Any) -> None:
        """Copies `array`, converted to the output's type, into output `index`."""
        if not 0 <= index < self.num_outputs:
            raise NativeError(f"output {index} of {self.num_outputs}")
        dtype = _numpy_type(self._library.tfs_call_output_type(self._handle, index))
        self._store(self._library.tfs_call_output, index, np.asarray(array).astype(dtype, copy=False))

    def set_state(self, index: int, array: Any) -> None:
        """Copies `array`, converted to the variable's type, as the new value of variable `index`."""
        if not 0 <= index < len(self.variables):
            raise NativeError(f"variable {index} of {len(self.variables)}")
        value = np.asarray(array).astype(self.variables[index].dtype, copy=False)
        self._store(self._library.tfs_call_state, index, value)

    def _value(self, index: int) -> NDArray[Any]:
        code, rank, dims = ctypes.c_int32(), ctypes.c_int32(), DIMS()
        data = self._library.tfs_call_input(
            self._handle, index, ctypes.byref(code), ctypes.byref(rank), ctypes.byref(dims)
        )
        view = _view(data, tuple(dims[: rank.value]), _numpy_type(code.value))
        view.flags.writeable = False
        return view

    def _store(self, allocate: Callable[..., int | None], index: int, array: NDArray[Any]) -> None:
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        data = allocate(self._handle, index, array.ndim, dims)
        if not data:
            raise NativeError(f"no buffer for value {index} of shape {array.shape}")
        _view(data, array.shape, array.dtype)[...] = array


def _numpy_type(code: int) -> np.dtype[Any]:
    if code not in _DTYPES:
        raise NativeError(f"no NumPy type for TensorFlow type {code}")
    return _DTYPES[code]


def _view(data: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array over `data` without a copy; empty arrays have memory of their own."""
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0 or not data:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(data)
    return np.ndarray(shape, dtype, buffer=memoryview(memory))
