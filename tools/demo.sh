#!/usr/bin/env bash
# Runs a training script that does not mention tf_stitch without and with TF_STITCH=1, and compares the two.
#   tools/demo.sh                          the encoder on digits
#   tools/demo.sh char_model --steps 40    another of models/scripts, with arguments of its own
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

case "${1:-}" in
  -h | --help) sed -n '2,4s/^# *//p' "${BASH_SOURCE[0]}"; exit ;;
  "" | -*) name=digits_encoder ;;
  *) name=$1; shift ;;
esac
script="$root/models/scripts/$name.py"
[ -f "$script" ] || fail "no script $name; there are: $(cd "$root/models/scripts" && grep -l __main__ *.py | sed 's/\.py$//' | xargs)"
grep -q tf_stitch "$script" && fail "$script mentions tf_stitch: it would prove nothing"
prepare demo

folder=$(mktemp -d "${TMPDIR:-/tmp}/tf_stitch_demo.XXXXXX")
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2} PYTHONUNBUFFERED=1
unset TF_STITCH TF_STITCH_REPORT
export TF_STITCH_ASYNC=${TF_STITCH_ASYNC:-0}  # few steps: all are stitched

echo "python models/scripts/$name.py $*"
"$venv/bin/python" "$script" "$@" --out "$folder/plain.json" >"$folder/plain.log" 2>&1 \
  || { tail -20 "$folder/plain.log"; fail "the script failed without tf_stitch; its output is above"; }
grep -h '_ms ' "$folder/plain.log"
echo "TF_STITCH=1 TF_STITCH_ASYNC=$TF_STITCH_ASYNC python models/scripts/$name.py $*"
TF_STITCH=1 TF_STITCH_REPORT="$folder" "$venv/bin/python" "$script" "$@" --out "$folder/stitched.json" \
  >"$folder/stitched.log" 2>&1 \
  || { tail -20 "$folder/stitched.log"; fail "the script failed with TF_STITCH=1; its output is above"; }
grep -h '^\[tf_stitch\]' "$folder/stitched.log"
grep -h '_ms ' "$folder/stitched.log"
echo
cd "$root" && exec "$venv/bin/python" -m tools.compare_runs "$folder"
