# Sourced by the other scripts: `prepare EXTRA [OPTIONS]` leaves a virtual environment with TensorFlow and tf_stitch
# installed, by pip with these options.
# VENV names another folder for it than .venv in the clone.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$root/.venv}

fail() {
  echo "$*" >&2
  exit 1
}

# Debian's goes before others, which pyenv builds without profile-guided optimization: it compiles regions in three
# quarters of their time.
pythons=(/usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10)

# The first Python that TensorFlow has wheels for here, and that makes virtual environments.
find_python() {
  local candidate
  for candidate in "${pythons[@]}"; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' \
        2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

prepare() {
  local extra=$1 python stamp
  shift
  command -v g++ >/dev/null || fail "g++ is missing, and the native op is built with it: apt-get install g++"
  stamp="$venv/.tf_stitch-$extra-$(cat "$root/pyproject.toml" "$root/setup.py" | sha256sum | cut -c1-16)"
  if [ ! -e "$stamp" ]; then
    if [ ! -x "$venv/bin/python" ]; then
      python=$(find_python) || fail "no Python 3.10 to 3.13 with venv found (python3 is $(python3 --version 2>&1)):" \
        "TensorFlow needs one, and an environment of its own (apt-get install python3-venv)"
      echo "Making a virtual environment in $venv" >&2
      "$python" -m venv "$venv" || fail "no virtual environment could be made in $venv"
    fi
    echo "Installing tf_stitch and what it needs into $venv (TensorFlow is about 600 MB)" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" --editable "$root[tensorflow,$extra]" \
      || fail "pip could not install $root[tensorflow,$extra]; its message is above"
    touch "$stamp"
  fi
}
