#!/usr/bin/env bash
# Runs the GPU tests and the three scripts, plain and stitched, on a machine with an NVIDIA GPU and TensorFlow.
#   tools/gpu_check.sh [OUT_FOLDER]
set -u
cd "$(dirname "$0")/.."
out=${1:-/tmp/tf_stitch_gpu}
mkdir -p "$out"
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3} TF_FORCE_GPU_ALLOW_GROWTH=true PYTHONUNBUFFERED=1
status=0
python3 -m pytest -q -m gpu tests 2>&1 | tee "$out/gpu_tests.txt" | tail -15 || status=1
for name in digits_encoder word2vec_v1 char_model; do
  python3 "models/scripts/$name.py" > "$out/$name.plain.txt" 2> "$out/$name.plain.err" || status=1
  TF_STITCH=1 TF_STITCH_REPORT="$out/$name" python3 -m tf_stitch "models/scripts/$name.py" \
    > "$out/$name.stitched.txt" 2> "$out/$name.stitched.err" || status=1
  echo "== $name"; grep -h '^\[tf_stitch\]' "$out/$name.stitched.err"
  for kind in plain stitched; do echo "$kind: $(grep -hE '_ms' "$out/$name.$kind.txt" | tr '\n' ' ')"; tail -n 2 "$out/$name.$kind.err" | cut -c1-300; done
  paste <(grep '^step' "$out/$name.plain.txt") <(grep '^step' "$out/$name.stitched.txt") | sed -n '1p;2p;10p;50p'
done
exit $status
