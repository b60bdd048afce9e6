#!/bin/bash
# tutti-tune keeps the fastest ways, and programs that come later take them.
#   tune_test.sh TUTTI_RUN TUTTI_TUNE EXAMPLE TUTTI_INFO [FOLDER OF THE TEST DRIVER]
set -u
run=$1 tune=$2 example=$3 info=$4 fake=${5:-}
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Figures that nobody measures again.
TUTTI_CALIBRATION=off "$info" --calibration | sed '/^#/d; s/^measured .*/measured 8 0 complete/' >"$dir/figures"
export TUTTI_CALIBRATION=$dir/figures
# expect WHAT TEXT: the last output has it.
expect() {
  if grep -q -- "$2" "$dir/out"; then echo "ok: $1"; else
    echo "FAILED: $1: no '$2' in"; cat "$dir/out"; failed=1
  fi
}
quickly=(--sizes 4,16K --collectives allreduce --rounds 1 --block-ms 0.2)

"$run" -n 2 "$tune" --sizes 4 --collectives allgather --rounds 1 --dry-run >"$dir/out" 2>&1 || failed=1
[ ! -e "$dir/figures.tuned" ] || { echo "FAILED: a dry run keeps nothing"; failed=1; }
"$run" -n 3 "$tune" "${quickly[@]}" >"$dir/out" 2>&1 || failed=1
expect 'says where it keeps them, and what was sent' "kept in $dir/figures.tuned; measured with new data in every call"
grep 'does not serve' "$dir/out" && { echo "FAILED: a way that does not fit was measured as another"; failed=1; }
"$run" -n 2 "$tune" --sizes 4 --collectives allreduce --rounds 1 --block-ms 0.2 >"$dir/out" 2>&1 || failed=1
cp "$dir/figures.tuned" "$dir/out"
expect 'keeps sets for several numbers of ranks' '^ranks 3 1 shm-processes - '
expect 'keeps a set for two ranks' '^ranks 2 1 shm-processes - '
expect 'keeps each collective and size' '^best allreduce 16384 '
expect 'keeps the ways of messages' '^send 16384 '
if [ -n "$fake" ]; then
  cp "$dir/figures.tuned" "$dir/before"
  LD_LIBRARY_PATH=$fake TUTTI_DEVICE=cuda "$run" -n 2 "$tune" "${quickly[@]}" >"$dir/out" 2>&1 && failed=1
  expect 'measures nothing on CUDA devices' 'nothing to keep: .*CUDA devices'
  cmp "$dir/before" "$dir/figures.tuned" || failed=1
fi
TUTTI_EXPLAIN=1 "$run" -n 3 "$example" >"$dir/out" 2>&1 || failed=1
expect 'programs take what was measured' 'measured to be the fastest'
"$run" -n 2 "$tune" --sizes 4x >"$dir/out" 2>&1 && failed=1
expect 'wrong sizes are refused' '--sizes are as 8,64K,1M'
TUTTI_CALIBRATION=off "$run" -n 2 "$tune" "${quickly[@]}" >"$dir/out" 2>&1 && failed=1
expect 'says when there is nowhere to keep them' 'nowhere to keep'
exit $failed
