"""Drafts of the converted model: SavedModels in a temporary folder whose regions this process answers for."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tf_stitch.convert.folder import copy_model
from tf_stitch.convert.rewriting import Place, Rewriting
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import Model

CONTEXTS = ("cond_context", "while_context")


def rewritten(model: Model, rewritings: Sequence[Rewriting], first: int = 0, module: str = "") -> SavedModel:
    """The model's graphs with a node in the place of each region.

    Args:
        first: number of the first region.
        module: digest of the module that has their kernels.
    """
    proto = SavedModel()
    proto.CopyFrom(model.proto)
    meta = proto.meta_graphs[model.place]
    functions = {f.signature.name: f for f in meta.graph_def.library.function}
    for rewriting in rewritings:
        start = first
        first += len(rewriting.regions)
        if not rewriting.taken:
            continue

        def place_of(i: int, start: int = start) -> Place:
            return Place(start + i, module)

        if rewriting.body.source is None:
            after = rewriting.graph(place_of)
            del meta.graph_def.node[:]
            meta.graph_def.node.extend(after.node)
            _drop_contexts(meta)
        else:
            functions[rewriting.body.name].CopyFrom(rewriting.function(place_of))
            meta.graph_def.library.function.extend(f for f in rewriting.body.added
                                                   if f.signature.name not in functions)
            functions |= {f.signature.name: f for f in meta.graph_def.library.function}
    return proto


def _drop_contexts(meta: MetaGraphDef) -> None:
    """Removes what tells of loops and branches to who makes gradients in TensorFlow 1: it names nodes that are in
    regions now, and loaders would look for them."""
    for key in CONTEXTS:
        if key in meta.collection_def:
            del meta.collection_def[key]


@contextlib.contextmanager
def loaded_draft(model: Model, proto: SavedModel, scratch: Path) -> Iterator[Loaded]:
    """A draft in a session.

    Args:
        scratch: folder for its files.

    Raises:
        ConvertError: TensorFlow cannot load it.
    """
    with tempfile.TemporaryDirectory(prefix="draft_", dir=scratch) as folder:
        copy_model(model.path, proto, Path(folder), link=True)
        with Loaded(Path(folder), model.tags) as loaded:
            yield loaded
