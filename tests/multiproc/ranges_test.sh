#!/usr/bin/env bash
# Calls of CUDA ranks are NVTX ranges for a tool that listens; those of host ranks are none.
# usage: ranges_test.sh TUTTI_RUN CUDA_RANKS EXAMPLE LISTENER FAKE_CUDA_FOLDER
set -euo pipefail
run=$1 cuda_ranks=$2 example=$3 listener=$4 fake_cuda=$5
export TUTTI_CALIBRATION=off NVTX_INJECTION64_PATH=$listener
said=$(LD_LIBRARY_PATH=$fake_cuda "$run" -n 2 --no-tag "$cuda_ranks" 1 "slices=$PWD/ranges_slices.lock" 2>&1) || { echo "$said"; exit 1; }
begun=$(grep -c "range begins: tuttiAllReduce$" <<<"$said") || { echo "no range of AllReduce:"; echo "$said"; exit 1; }
[ "$(grep -c 'range begins:' <<<"$said")" = "$(grep -c 'range ends' <<<"$said")" ] || { echo "ranges do not end"; exit 1; }
said=$("$run" -n 2 --no-tag "$example" 2>&1)
! grep "range begins" <<<"$said" || { echo "host ranks have ranges"; exit 1; }
echo "$begun ranges of AllReduce"
