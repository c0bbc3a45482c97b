"""How far predicted times are trusted where one way is chosen instead of another."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device import follows as by
from tf_stitch.device.numbers import number


@dataclass(frozen=True)
class ChoiceNumbers:
    """Least gains below which a prediction is noise, and how far kernels are off their predictions.

    Attributes:
        tie_us: predicted times that differ by less are the same: then the plan of fewer kernels is better.
        seam_us: a seam of regions is moved where that saves this much at least: a tenth of what an op costs.
        stitched_us: a matmul's call stays unless a kernel of it gains this much.
        stitched_tie_us: differences between such gains that are noise.
        stitched_part: what one such kernel may be predicted to take of the library's call and the kernels around it,
            unless the matmul was given to a kernel before.
        epilogue_us: a kernel stays as it was planned, unless a call that takes nodes of it gains this much.
        float8_us: halves are multiplied, unless float8 gains this much.
        pack_us: of one launch instead of two.
        scale_us: what the kernel behind a call takes at least, beyond scaling the filters, for scales to move there.
        few_rows_part: what a kernel of a matmul of few rows may be predicted to take of a library's measured time.
        repeated_part: that of a matmul of more rows that a recurrent layer repeats.
        task_part: CPU: what tasks may be predicted to take of a library's measured time for a matmul.
        attention_times: what an attention's kernel may take longer than is predicted.
        training_times: what the three kernels of training an attention may.
        attention_call_part: what a library's call of an attention may take of what our kernel is predicted to take.
        attention_call_us: of such a call among kernels, beside its time alone: nothing begins while it runs, nor does
            it begin before all that it waits for has ended.
    """

    tie_us: float = number("us", by.launch_us)
    seam_us: float = number("us", by.op_us)
    stitched_us: float = number("us", by.launch_us)
    stitched_tie_us: float = number("us", by.launch_us)
    stitched_part: float = number("part")
    epilogue_us: float = number("us", by.launch_us)
    float8_us: float = number("us", by.launch_us)
    pack_us: float = number("us", by.launch_us)
    scale_us: float = number("us", by.launch_us)
    few_rows_part: float = number("part")
    repeated_part: float = number("part")
    task_part: float = number("part")
    attention_times: float = number("times")
    training_times: float = number("times")
    attention_call_part: float = number("part")
    attention_call_us: float = number("us", by.launch_us)
