#!/bin/bash
# Every launcher that launchInfo() knows, real where it is installed, else its variables.
#   launch_test.sh PROGRAM PMIX     PROGRAM is launch_ranks; PMIX is 1 if the library was built with PMIx
# Exit status 0: all found each other; the output is that of what failed.
set -u
program=$1
failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# check NAME RANKS: $out must hold the line "NAME rank R of RANKS" once for every rank.
check() {
  local r
  for ((r = 0; r < $2; ++r)); do
    if [ "$(grep -c "^$1 rank $r of $2\$" "$out")" != 1 ]; then
      echo "FAILED: $1: rank $r of $2 is not there; the output was:"
      cat "$out"
      failed=1
      return
    fi
  done
  echo "ok: $1 with $2 ranks"
}

port() { echo $((20000 + (RANDOM * 32768 + RANDOM) % 10000)); }

"$program" >"$out" 2>&1
check none 1

export MASTER_ADDR=localhost MASTER_PORT=$(port)
for r in 2 1 3 0; do  # rank 0, where the others meet, comes last
  RANK=$r WORLD_SIZE=4 "$program" 2 >>"$out" 2>&1 &
done
wait
check torchrun 4
unset MASTER_ADDR MASTER_PORT

export SLURM_JOB_ID=$RANDOM SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_STEP_NODELIST=localhost
for r in 2 1 0; do
  SLURM_PROCID=$r "$program" 2 >>"$out" 2>&1 &
done
wait
check slurm 3
unset SLURM_JOB_ID SLURM_STEP_ID SLURM_NTASKS SLURM_STEP_NODELIST

if [ "${2:-1}" != 1 ]; then
  echo "skipped: pmix: built without it"
elif mpirun --version 2>/dev/null | grep >/dev/null 'Open MPI'; then
  root=
  [ "$(id -u)" = 0 ] && root=--allow-run-as-root
  mpirun $root --oversubscribe -np 4 "$program" 2 >"$out" 2>&1
  check pmix 4
else
  echo "skipped: pmix: there is no mpirun of Open MPI"
fi
exit $failed
