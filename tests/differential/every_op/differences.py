"""Where a result need not be TensorFlow's, by the start of a case's name, with the reason.

That subnormal numbers are flushed to zero or not, and that halves are computed with in float32, is no entry here:
`compare` knows of the one, `Result.wide` of the other.
"""

from __future__ import annotations

import platform

SUBNORMAL = {
    "Log float64": "the C library's log, which is the kernels' and that of TensorFlow's last elements, knows subnormal "
                   "numbers where the processor flushes them; TensorFlow's vectors take them for zero",
    "Xlogy float64": "as Log",
    "Pow": "as Log",
    "Atan2": "as Log; TensorFlow's vectors give pi/4 for a subnormal number and zero",
    "Lgamma": "as Log; NumPy takes them for zero",
    "Selu": "exp(x) - 1 of the smallest normal number is flushed in TensorFlow, so that its gradient is that of x > 0",
    "Cast bfloat16 to bool": "TensorFlow looks at the bits: a subnormal number is true, and false in float32",
}
if tuple(map(int, (platform.libc_ver()[1] or "0").split("."))) >= (2, 38):
    SUBNORMAL |= dict.fromkeys(("FloorMod", "Mod", "TruncateMod"), "the C library's fmod computes with integers from "
                               "glibc 2.38 on: a divisor that the processor flushes to zero is none for it")
"""Elements that are not compared where an operand is as small as the smallest normal number, and not zero."""

NAN = {
    "Erf float64": "TensorFlow's is NaN where x^2 overflows",
}
"""TensorFlow's NaN may be a number."""

IN_FLOAT64 = {
    "Softmax": "oneDNN's softmax, which TensorFlow has for float32 and bfloat16, gives zeros beside a NaN or an "
               "infinity; Eigen's, for other types and with TF_ENABLE_ONEDNN_OPTS=0, NaN in the whole row",
}
"""TensorFlow has two kernels, which differ: that for float64 is right too."""

REFUSED = {
    "needed, not|is moved, not|does not become": "the IR has the op for other element types alone",
    "Bitcast to": "of float32 to int32 alone",
    "the (padding|bounds of the slice) (is|are) decided at run time": "of the gradient of such a slice",
    "TopKV2 without an order": "that of the heap of TensorFlow's kernel, which is its own",
    "a float64 image between pixels": "TensorFlow rounds each of its terms to float32",
    "there is no row": "counts of nothing",
    "a negative stride": "of the gradient of a slice",
    "an integer mean of what may be empty": "TensorFlow divides by zero",
    r"Arg(Max|Min) of bool": "rare",
    r"TopKV2 of (float64|int64|uint64)": "a value and its place are compared as one number of 64 bits",
    "a matmul of int": "no library multiplies integers",
    "a convolution of int": "no library multiplies integers",
    "that TensorFlow's threads share the numbers": "which of them draws what depends on how many there are",
    "StatelessRandom.* of (float64|int64)": "takes two words a number",
}
"""Reasons, as patterns, for which a node of a case may stay TensorFlow's."""
