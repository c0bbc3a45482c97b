#!/usr/bin/env bash
# Sets up a virtual environment and runs every check: ruff, mypy, pytest. Arguments go to pytest.
# With `--affected [BASE]` in front, those test files that a change since BASE (main) may affect: see tools/affected.py.
# GPU tests are skipped, by name, where there is no GPU; so are cases that are marked exhaustive, without --exhaustive.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
affected=
if [ "${1:-}" = --affected ]; then
  affected=main
  shift
  case "${1:--}" in -*) ;; *) affected=$1; shift ;; esac
fi
prepare test,dev --no-compile  # Python compiles what tests import, on both cores
cd "$root" || exit 1
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
unset TF_STITCH TF_STITCH_REPORT
unset PYTHONDONTWRITEBYTECODE  # hundreds of tests start Python, and each would compile all modules anew

if [ "$affected" ]; then
  chosen=$("$venv/bin/python" -m tools.affected "$affected") || exit 1
  [ "$chosen" ] || fail "no test file is affected"
  mapfile -t chosen <<<"$chosen"
  set -- "${chosen[@]}" "$@"
fi

status=0
"$venv/bin/python" -m ruff check . || status=1
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$venv/bin/python" -m mypy >"$said" 2>&1 &
types=$!
[ "$status" = 0 ] || echo "FAILED: ruff, see above; the tests run all the same" >&2
# A file's tests stay together: they share fixtures. Files keep the order of tests/conftest.py, longest first. Two workers
# more than processors: two fifths of a run on two are waits, for programs that sleep, clocks and locks.
workers=$(($(nproc) + 2))
workers=$((workers > 5 ? 5 : workers))
side_by_side=(--workers="$workers")
[ ! -e /dev/nvidiactl ] || side_by_side=(-n "$workers" --dist loadfile --no-loadscope-reorder)
"$venv/bin/python" -m pytest "${side_by_side[@]}" "$@" || status=1
if ! wait "$types"; then
  cat "$said"
  echo "FAILED: mypy, see above" >&2
  status=1
fi
exit "$status"
