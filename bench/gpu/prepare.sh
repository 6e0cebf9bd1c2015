#!/usr/bin/env bash
# Makes this checkout ready to go to a GPU machine without a package index, and rehearses the checks:
# the emulator stands for the GPU, in a copy that holds only what goes there.
#
#     bash bench/gpu/prepare.sh [--no-rehearsal] [--python FILE]
#
# --python: the interpreter of the rehearsal, best one with nothing but what the GPU machine has.
set -eu
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$ROOT"
REHEARSAL=1
OWN=python3
[ ! -x .venv/bin/python ] || OWN=.venv/bin/python
PY=$OWN
while [ $# -gt 0 ]; do
    case $1 in
        --no-rehearsal) REHEARSAL=0 ;;
        --python) PY=$2; shift ;;
        *) echo "unknown: $1"; exit 2 ;;
    esac
    shift
done
case $PY in */*) PY=$(cd "$(dirname "$PY")" && pwd)/$(basename "$PY") ;; esac

# What such a machine usually lacks, all pure Python: from the environment that has it, or a wheel.
rm -rf .gpu
mkdir -p .gpu/site
for name in pycparser; do
    place=$("$OWN" -c "import os, $name; print(os.path.dirname($name.__file__))" 2>/dev/null || true)
    if [ -n "$place" ]; then
        cp -r "$place" ".gpu/site/$name"
        find ".gpu/site/$name" -name __pycache__ -type d -prune -exec rm -rf {} +
    else
        folder=$(mktemp -d)
        "$OWN" -m pip download --quiet --no-deps --only-binary=:all: -d "$folder" "$name"
        "$OWN" -m zipfile -e "$folder"/*.whl .gpu/site
        rm -rf "$folder" .gpu/site/*.dist-info
    fi
done

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/tree"
git ls-files -z -co --exclude-standard -- ':!bench/results' | xargs -0 cp --parents -t "$copy/tree"
cp -r .gpu "$copy/tree/"
echo "what goes there has $(($(du -sk "$copy/tree" | cut -f1) >> 10)) MiB"

if [ "$REHEARSAL" = 1 ]; then
    echo "rehearsal with $("$PY" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
    good=0
    OUT=$copy/out GPU_WORK=$copy/work GPU_PYTHON=$PY bash "$copy/tree/bench/gpu/on_device.sh" --rehearse \
        --seconds 3600 probe doctor smoke nccl beside tensor_cores gpt2 times times_torch || good=1
    mkdir -p .gpu/rehearsal
    cp "$copy/out/"* .gpu/rehearsal/
    rm -f .gpu/rehearsal/*.part
    echo "its results: .gpu/rehearsal"
    [ "$good" = 0 ] || { echo "it did not go well: see .gpu/rehearsal/summary.txt"; exit 1; }
fi
cat <<'TEXT'
Ready. On the GPU machine, in the root of what went there (all that git lists, and .gpu):
    bash bench/gpu/on_device.sh --seconds 430 first
and later, after looking:
    bash bench/gpu/on_device.sh --seconds 180 STEP STEP ...
TEXT
