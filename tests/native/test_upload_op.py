"""StitchUpload where there is no GPU: what it takes."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tf_stitch.native.bindings import OpLibrary


def test_it_copies_bytes_alone(library: OpLibrary) -> None:
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError), match="string"):
        library.raw_ops.stitch_upload(input=tf.constant("a"))
