"""How long calls of libraries take that no grid of measured times has."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device import follows as by
from tf_stitch.device.numbers import number


@dataclass(frozen=True)
class LibraryNumbers:
    """All but `addend` are a GPU's.

    Attributes:
        addend: how much longer a library is taken to need than a kernel, for what a call reads when its matmul is done.
        attention_us: of the least attention.
        attention_term_us: of each of the terms of which a score is the sum.
        attention_gradient_us: of the least gradients of an attention.
        attention_gradient_element_us: of each element of queries.
        attention_gradient_term_us: of each of the terms.
        float8_us: of a matmul of float8, beside its part of the time of bfloat16.
        float8_part: that part.
        depthwise_us: of the least depthwise convolution; and its multiplications, in float32 and in half precision.
        depthwise_input_grad, depthwise_filter_grad: those of gradients of images and of filters.
        depthwise_strided_grad: those of images between whose windows elements are left out.
    """

    addend: float = number("times")
    attention_us: float = number("us", by.launch_us)
    attention_term_us: float = number("us", by.tensor_us)
    attention_gradient_us: float = number("us", by.launch_us)
    attention_gradient_element_us: float = number("us", by.memory_us)
    attention_gradient_term_us: float = number("us", by.tensor_us)
    float8_us: float = number("us", by.launch_us)
    float8_part: float = number("part")
    depthwise_us: float = number("us", by.launch_us)
    depthwise_float32: float = number("part of additions")
    depthwise_half: float = number("part of additions")
    depthwise_input_grad_float32: float = number("part of additions")
    depthwise_input_grad_half: float = number("part of additions")
    depthwise_filter_grad_float32: float = number("part of additions")
    depthwise_filter_grad_half: float = number("part of additions")
    depthwise_strided_grad: float = number("part of additions")
