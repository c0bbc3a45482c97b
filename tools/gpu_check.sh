#!/usr/bin/env bash
# Checks on a machine with an NVIDIA GPU and TensorFlow.
#   tools/gpu_check.sh [OUT_FOLDER [WHAT...]]
# WHAT, all by default:
#   scripts  the three scripts as they are (Keras compiles with XLA there), without XLA, and stitched
#   tests    the tests that need a GPU, and tests of whole programs, which take it where there is one
#   models   the end-to-end tests of the zoo, the same as on a CPU; MODELS="bert or dien" runs some of them
# Where pytest-xdist is installed, GPU_TEST_WORKERS tests run at a time (4).
set -u
cd "$(dirname "$0")/.."
root=$PWD
out=${1:-/tmp/tf_stitch_gpu}
shift || true
what=" ${*:-scripts tests models} "
mkdir -p "$out"
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3} TF_FORCE_GPU_ALLOW_GROWTH=true PYTHONUNBUFFERED=1
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
status=0

scripts() {
  without_xla='import runpy, sys; from tf_stitch.plugin import keras_jit; import keras; keras_jit.resolve_auto_to_false(); del sys.argv[0]; sys.path.insert(0, "models/scripts"); runpy.run_path(sys.argv[0], run_name="__main__")'
  for name in digits_encoder word2vec_v1 char_model; do
    script="models/scripts/$name.py"
    python3 "$script" --out "$out/$name.as_is.json" > "$out/$name.as_is.txt" 2> "$out/$name.as_is.err" || status=1
    python3 -c "$without_xla" "$script" --out "$out/$name.plain.json" > "$out/$name.plain.txt" 2> "$out/$name.plain.err" || status=1
    TF_STITCH=1 TF_STITCH_ASYNC=0 TF_STITCH_REPORT="$out/$name" python3 -m tf_stitch "$script" --out "$out/$name.stitched.json" \
      > "$out/$name.stitched.txt" 2> "$out/$name.stitched.err" || status=1
    echo "== $name"; grep -h '^\[tf_stitch\]' "$out/$name.stitched.err"
    for kind in as_is plain stitched; do echo "$kind: $(grep -hE '_ms' "$out/$name.$kind.txt" | tr '\n' ' ')"; done
    paste <(grep '^step' "$out/$name.plain.txt") <(grep '^step' "$out/$name.stitched.txt") | awk '
      { d = ($4 > $8 ? $4 - $8 : $8 - $4) / ($4 < 0 ? -$4 : $4); if ($2 <= 10 && d > a) a = d; if ($2 <= 50 && d > b) b = d }
      END { printf "largest relative difference of losses: first 10 steps %.2e, first 50 %.2e\n", a, b }'
  done
}

tests() {  # NAME DISTRIBUTION ARGUMENTS...
  local name=$1 parallel=()
  python3 -c 'import xdist' 2>/dev/null && parallel=(-n "${GPU_TEST_WORKERS:-4}" --dist "$2")
  shift 2
  python3 -m pytest -q -p no:cacheprovider "${parallel[@]}" "$@" > "$out/$name.txt" 2>&1 || status=1
  echo "== $name"; grep -v '^SKIPPED' "$out/$name.txt" | tail -${GPU_TEST_LINES:-25}
}

case $what in *" scripts "*) scripts ;; esac
case $what in *" tests "*)
  tests gpu_tests loadfile -m gpu tests  # a file's tests stay together: they share fixtures
  tests program_tests loadfile tests/end_to_end/test_{variables,memory,loops,dynamic_shapes}.py ;;
esac
case $what in *" models "*) tests model_tests load tests/end_to_end/test_model{s,_variants}.py -k "${MODELS:-test}" ;; esac
exit $status
