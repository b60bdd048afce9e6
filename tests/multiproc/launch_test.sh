#!/bin/bash
# Every launcher that launchInfo() knows, real where it is installed, else its variables.
#   launch_test.sh PROGRAM NO_PMIX SANITIZERS     launch_ranks; no_pmix.c as a library; what they were built with, or none
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

# refused TEXT: the program failed, and $out holds the text.
refused() {
  if [ $? = 0 ] || ! grep >/dev/null -F "$1" "$out"; then
    echo "FAILED: no '$1' in:"
    cat "$out"
    failed=1
  else
    echo "ok: refused: $1"
  fi
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

if [[ $3 == *thread* ]]; then
  echo "skipped: pmix: its library's threads are none that the thread sanitizer sees into"
elif mpirun --version 2>/dev/null | grep >/dev/null 'Open MPI'; then
  root=
  [ "$(id -u)" = 0 ] && root=--allow-run-as-root
  mpirun $root --oversubscribe -np 4 "$program" 2 >"$out" 2>&1
  check pmix 4
else
  echo "skipped: pmix: there is no mpirun of Open MPI"
fi

if mpiexec.hydra --version >/dev/null 2>&1; then
  mpiexec.hydra -n 3 "$program" 2 >"$out" 2>&1
  check pmi 3
  # A program with MPI in it that it does not use, as who starts MPI finishes with the launcher.
  for mpi in /usr/lib/*/libmpich.so.12; do
    [ "$3" = none ] && [ -e "$mpi" ] || continue
    mpiexec.hydra -n 3 env LD_PRELOAD="$mpi" "$program" 2 >"$out" 2>&1
    check pmi 3
  done
else
  echo "skipped: pmi: there is no mpiexec of MPICH"
fi

# Ranks of mpirun that cannot meet: an error that says what to do, not a job of one rank each.
export PMIX_NAMESPACE=x PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=4
if [ "$3" = none ]; then
  LD_PRELOAD=$2 "$program" >"$out" 2>&1
  refused 'install it (Debian and Ubuntu: libpmix2)'
fi
PMIX_NAMESPACE= "$program" >"$out" 2>&1
refused 'OMPI_COMM_WORLD_SIZE=4, but PMIX_NAMESPACE and PMIX_RANK are not set'
OMPI_COMM_WORLD_SIZE=1 PMIX_NAMESPACE= "$program" >"$out" 2>&1
check none 1
exit $failed
