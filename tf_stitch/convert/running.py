"""Runs a SavedModel's signatures in a session, as TensorFlow's C API does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.saved_model.loader_impl import SavedModelLoader

from tf_stitch.convert.saved_model import Signature
from tf_stitch.errors import ConvertError

Arrays = Mapping[str, NDArray[Any]]


class Loaded:
    """A SavedModel in a session of its own.

    Args:
        gpu: the session may use GPUs.

    Attributes:
        tf32: whether matmuls of float32 may be computed in TF32.

    Raises:
        ConvertError: TensorFlow cannot load it; the message is TensorFlow's.
    """

    def __init__(self, path: Path, tags: Sequence[str], gpu: bool = False) -> None:
        self.tf32 = (gpu and bool(tf.config.list_physical_devices("GPU"))
                     and tf.config.experimental.tensor_float_32_execution_enabled())
        graph = tf.Graph()
        config = tf.compat.v1.ConfigProto(device_count={} if gpu else {"GPU": 0}, allow_soft_placement=True)
        config.gpu_options.allow_growth = True
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                SavedModelLoader(str(path)).load(self._session, list(tags))
        except (tf.errors.OpError, OSError, ValueError, RuntimeError, KeyError) as error:
            self._session.close()
            first = str(getattr(error, "message", error)).strip().splitlines()[0]
            raise ConvertError(f"TensorFlow cannot load {path}: {first}. If a file of variables/ is damaged or "
                               "missing, copy the model anew") from error

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        self._session.close()

    def run(self, signature: Signature, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """The outputs by name.

        Raises:
            tf.errors.OpError: what the model raises.
        """
        found: dict[str, NDArray[Any]] = self.caller(signature)(inputs)
        return found

    def caller(self, signature: Signature) -> Any:
        """A function from inputs to outputs, made for many calls."""
        names = [value.name for value in signature.inputs]
        call = self._session.make_callable([v.tensor for v in signature.outputs],
                                           [self._session.graph.as_graph_element(v.tensor) for v in signature.inputs])
        outputs = [value.name for value in signature.outputs]

        def run(inputs: Arrays) -> dict[str, NDArray[Any]]:
            return dict(zip(outputs, map(np.asarray, call(*(inputs[n] for n in names))), strict=True))

        return run

    def tensors(self, names: Sequence[str], signature: Signature, inputs: Arrays) -> list[NDArray[Any]]:
        """Values of tensors of the graph.

        Raises:
            tf.errors.OpError: what the model raises.
        """
        feeds = {v.tensor: inputs[v.name] for v in signature.inputs}
        return [np.asarray(value) for value in self._session.run(list(names), feeds)]
