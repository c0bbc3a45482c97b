"""Finds the first region, and in it the first pattern, that makes a script's result differ from plain TensorFlow's.

    python tools/bisect.py -- python train.py --steps 20
    python tools/bisect.py --tolerance=1e-5 -- python -m tf_stitch train.py

Compared are the losses of lines like "step 3 loss 0.25", else the numbers of the last line. The command runs about as
often as the numbers of regions and of patterns have binary digits. The work is in bisecting.py.

This file must also answer for the standard library's module of its name: Python puts this folder first on the path of
the programs in it, and `random` and others import bisect.
"""

from _bisect import bisect_left, bisect_right, insort_left, insort_right

__all__ = ["bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right"]
bisect, insort = bisect_right, insort_right

if __name__ == "__main__":
    from absl import app

    from bisecting import main

    app.run(main)
