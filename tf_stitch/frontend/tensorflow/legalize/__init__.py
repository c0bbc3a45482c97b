"""Legalisations by op family; importing this package registers them all."""

from tf_stitch.frontend.tensorflow.legalize import (
    activations,
    barriers,
    batch_norm,
    bias,
    binary,
    blocks,
    constants,
    convolutions,
    diagonals,
    dynamic_slices,
    indexing,
    losses,
    matmuls,
    movement,
    optimizers,
    pooling,
    random,
    reductions,
    resizing,
    reverse,
    sampling,
    scatters,
    shapes,
    top_k,
    unary,
    variables,
)

FAMILIES = (activations, barriers, batch_norm, bias, binary, blocks, constants, convolutions, diagonals, dynamic_slices,
            indexing, losses, matmuls, movement, optimizers, pooling, random, reductions, resizing, reverse, sampling,
            scatters, shapes, top_k, unary, variables)
