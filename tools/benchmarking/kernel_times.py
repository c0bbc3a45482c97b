"""GPU time by kernel of one workload, from TensorFlow's profiler: `kernel_times.py WORKLOAD MODE BACKEND`.

With tf_stitch run it with TF_STITCH=1 TF_STITCH_CUDA_GRAPHS=0: inside graphs the profiler sees no kernels.
"""

from __future__ import annotations

import collections
import glob
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CALLS = 5


def main(workload: str, mode: str, backend: str) -> None:
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    from benchmarking.region_cases import make_step

    step = make_step(workload, mode, backend)
    for _ in range(10):
        result = step()
    result.numpy()
    folder = tempfile.mkdtemp()
    tf.profiler.experimental.start(folder)
    for _ in range(CALLS):
        result = step()
    result.numpy()
    tf.profiler.experimental.stop()
    space = xplane_pb2.XSpace()
    space.ParseFromString(Path(glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)[0]).read_bytes())
    total: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for plane in (p for p in space.planes if p.name.startswith("/device:GPU")):
        names = {key: value.name for key, value in plane.event_metadata.items()}
        for line in (one for one in plane.lines if one.name.startswith("Stream")):
            for event in line.events:
                total[names[event.metadata_id]] += event.duration_ps
                count[names[event.metadata_id]] += 1
    print(f"{sum(count.values()) / CALLS:.0f} kernels, {sum(total.values()) / CALLS / 1e6:.1f} us a call")
    for name, picoseconds in total.most_common(45):
        print(f"{picoseconds / CALLS / 1e6:9.1f} us {count[name] / CALLS:6.1f} x  {name[:110]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
