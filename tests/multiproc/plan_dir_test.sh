#!/bin/bash
# Folders of plans that differ between processes: an error that names the rank; the same plans: they run.
#   plan_dir_test.sh TUTTI_RUN HOSTS_RANKS TUTTI_INFO
set -u
run=$1 ranks=$2 info=$3
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TUTTI_CALIBRATION=off
mkdir "$dir/one" "$dir/two"
for d in one two; do "$info" --export msccl allreduce:circulant --ranks 3 >"$dir/$d/theirs.xml" || failed=1; done

job() { "$run" -n 3 bash -c 'TUTTI_PLAN_DIR=$1/$([ $TUTTI_RANK = 2 ] && echo two || echo one) exec "$2"' - "$dir" "$ranks"; }

if TUTTI_ALGO=allreduce:theirs job >"$dir/out" 2>&1; then echo "ok: the same plans"; else
  echo "FAILED: the same plans:"; cat "$dir/out"; failed=1
fi
echo >>"$dir/two/theirs.xml"
if job >"$dir/out" 2>&1 || ! grep -q 'TUTTI_PLAN_DIR: rank 2 has 1 plans with fingerprint' "$dir/out"; then
  echo "FAILED: plans that differ:"; cat "$dir/out"; failed=1
else
  echo "ok: plans that differ"
fi
exit $failed
