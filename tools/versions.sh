#!/usr/bin/env bash
# Installs each version of TensorFlow into a virtual environment of its own, one after the other, trains the demo's model
# there without and with TF_STITCH=1, compares the losses, and writes benchmarks/versions.csv and versions.md. Of the last
# commit, whatever else lies in the tree.
#   tools/versions.sh                              tensorflow and tensorflow-cpu of each minor version from 2.16 on
#   tools/versions.sh tensorflow==2.17.1@3.11      of one distribution, with one Python
# Needs python3.10 to 3.13 on the PATH (of pyenv: PYENV_VERSION=3.10.13:3.11.7:3.12.1:3.13.0).
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command -v g++ >/dev/null || { echo "g++ is missing, and the native op is built with it: apt-get install g++" >&2; exit 1; }
cd "$root" && exec "${PYTHON:-python3}" -m tools.versions "$@"
