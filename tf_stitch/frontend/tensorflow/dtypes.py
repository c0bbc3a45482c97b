"""TensorFlow's element types and the tensor IR's."""

from __future__ import annotations

from tf_stitch.ir.dtypes import DType

# Values of tensorflow.DataType; reference types (above 100) are deliberately absent.
_OF_ENUM = {1: DType.F32, 2: DType.F64, 3: DType.I32, 9: DType.I64, 10: DType.BOOL, 14: DType.BF16, 19: DType.F16,
            23: DType.U64, 24: DType.F8_E5M2, 25: DType.F8_E4M3FN}
_ENUM_OF = {dtype: enum for enum, dtype in _OF_ENUM.items()}
DT_RESOURCE = 20
DT_VARIANT = 21


def of_enum(enum: int) -> DType | None:
    """The IR's dtype of a tensorflow.DataType, None if the IR lacks it."""
    return _OF_ENUM.get(enum)


def to_enum(dtype: DType) -> int:
    """The tensorflow.DataType of an IR dtype."""
    return _ENUM_OF[dtype]


def enum_name(enum: int) -> str:
    """The name of a tensorflow.DataType as in Python ("uint8")."""
    from tensorflow.dtypes import as_dtype

    return str(as_dtype(enum).name)
