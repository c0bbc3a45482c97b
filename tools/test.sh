#!/usr/bin/env bash
# Sets up a virtual environment and runs every check: ruff, mypy, pytest. Arguments go to pytest.
# GPU tests are skipped, by name, where there is no GPU.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare dev
cd "$root" || exit 1
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
unset TF_STITCH TF_STITCH_REPORT
unset PYTHONDONTWRITEBYTECODE  # hundreds of tests start Python, and each would compile all modules anew

status=0
"$venv/bin/python" -m ruff check . || status=1
"$venv/bin/python" -m mypy || status=1
[ "$status" = 0 ] || echo "FAILED: ruff or mypy, see above; the tests run all the same" >&2
# Last, so that its summary ends the output. A file's tests stay together: they share fixtures. Files keep the order of
# tests/conftest.py, longest first.
workers=$(nproc)
workers=$((workers > 4 ? 4 : workers < 2 ? 2 : workers))
"$venv/bin/python" -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder "$@" || status=1
exit "$status"
