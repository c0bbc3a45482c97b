"""A SavedModel as it lies on disk: read, and refused where it cannot be converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef, SignatureDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.framework import op_def_registry

from tf_stitch.convert.paths import GRAPH_FILE, check_source
from tf_stitch.errors import ConvertError

INIT_SIGNATURES = ("__saved_model_init_op", "__saved_model_train_op")


@dataclass(frozen=True)
class Value:
    """An input or output of a signature.

    Attributes:
        tensor: its name in the graph.
        dims: None for a dimension that is unknown; None for an unknown rank.
    """

    name: str
    tensor: str
    dtype: tf.DType
    dims: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Signature:
    """A function of the model that others call by name."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class Model:
    """A SavedModel's folder, and the graph in it that serves."""

    path: Path
    proto: SavedModel
    place: int

    @property
    def meta(self) -> MetaGraphDef:
        """The graph that is tagged `serve`, or the only one."""
        return self.proto.meta_graphs[self.place]

    @property
    def tags(self) -> list[str]:
        """The tags of `meta`."""
        return list(self.meta.meta_info_def.tags)

    def signatures(self) -> dict[str, Signature]:
        """Signatures with inputs and outputs, by name."""
        found = {}
        for name, signature in sorted(self.meta.signature_def.items()):
            if name not in INIT_SIGNATURES and signature.outputs and _is_dense(signature):
                found[name] = Signature(name, _values(signature.inputs), _values(signature.outputs))
        return found

    def chosen(self, names: list[str]) -> list[Signature]:
        """The signatures of these names, all where there are none.

        Raises:
            ConvertError: there is no such signature, or none at all.
        """
        known = self.signatures()
        if not known:
            raise ConvertError(f"{self.path} has no signatures: save the model with `signatures=`, or `model.export`")
        for name in names:
            if name not in known:
                raise ConvertError(f"{self.path} has no signature {name!r}; it has {', '.join(known)}")
        return [known[name] for name in names or known]


def read_model(path: Path) -> Model:
    """The model in a folder.

    Raises:
        ConvertError: there is none, or not one that can be converted.
    """
    check_source(path)
    model = model_of(path, parse(path / GRAPH_FILE))
    _check_ops(model)
    return model


def parse(file: Path) -> SavedModel:
    """
    Raises:
        ConvertError: the file cannot be read, or is damaged.
    """
    try:
        proto = SavedModel.FromString(file.read_bytes())
    except OSError as error:
        raise ConvertError(f"{file} cannot be read ({error.strerror}): copy the model anew") from None
    except DecodeError as error:
        raise ConvertError(f"{file} is damaged, or no SavedModel ({error}): copy it anew") from None
    if not proto.meta_graphs:
        raise ConvertError(f"{file} holds no graph: save the model anew")
    return proto


def model_of(path: Path, proto: SavedModel) -> Model:
    """The model whose graph serves.

    Raises:
        ConvertError: there are several.
    """
    tags = [list(meta.meta_info_def.tags) for meta in proto.meta_graphs]
    if len(tags) == 1:
        return Model(path, proto, 0)
    if ["serve"] in tags:
        return Model(path, proto, tags.index(["serve"]))
    raise ConvertError(f"{path} holds {len(tags)} graphs, of which none is tagged `serve` alone: {tags}")


def _check_ops(model: Model) -> None:
    """
    Raises:
        ConvertError: TensorFlow does not know one of the ops.
    """
    functions = {f.signature.name: f.node_def for f in model.meta.graph_def.library.function}
    for where, nodes in {"the graph": model.meta.graph_def.node, **functions}.items():
        for node in nodes:
            if node.op not in functions and op_def_registry.get(node.op) is None:
                raise ConvertError(f"node {node.name} of {where} is a {node.op}, an op that this TensorFlow "
                                   f"({tf.__version__}) does not know: name the library that has it by --op_library")


def _is_dense(signature: SignatureDef) -> bool:
    values = [*signature.inputs.values(), *signature.outputs.values()]
    return all(value.WhichOneof("encoding") == "name" for value in values)


def _values(infos: Mapping[str, MetaGraphDef]) -> tuple[Value, ...]:
    return tuple(Value(name, info.name, tf.as_dtype(info.dtype), dims_of(info.tensor_shape))
                 for name, info in sorted(infos.items()))


def dims_of(shape: TensorShapeProto) -> tuple[int | None, ...] | None:
    """Dimensions, None for what is unknown."""
    return None if shape.unknown_rank else tuple(d.size if d.size >= 0 else None for d in shape.dim)
