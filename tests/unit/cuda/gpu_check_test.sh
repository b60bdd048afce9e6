#!/usr/bin/env bash
# tools/gpu-check runs all of its stages on the driver of tests/fake_cuda, with stand-ins for NVIDIA's programs: every
# step runs or says why not, a failing one is seen, and the multi-process service is ended again.
#   gpu_check_test.sh BUILD        with LD_LIBRARY_PATH at the fake driver
set -uo pipefail
build=$(realpath "$1")
check=$(dirname "$(realpath "$0")")/../../../tools/gpu-check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
export PATH="$work/bin:$PATH" WORK="$work" TUTTI_CALIBRATION=off NCCL_LIBRARY="$build/packaging/libnccl.so.2"
unset NCCL_TESTS
failed=0
# program NAME TEXT: a stand-in.
program() {
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
program nvidia-smi 'case "$*" in *compute_cap*) echo 9.0 ;; *) echo "a test device" ;; esac'
program compute-sanitizer 'while [[ $1 == --* ]]; do shift 2; done; echo "$@" >>"$WORK/sanitized"; exec "$@"'
program nvidia-cuda-mps-control 'if [ "${1:-}" = -d ]; then echo start; else cat; fi >>"$CUDA_MPS_PIPE_DIRECTORY/../mps"'
export TMPDIR=$work

# wants TEXT: a line of the last run begins so.
wants() {
  grep -q "^$1" "$work/said" && return
  echo "no line begins with: $1"
  failed=1
}
"$check" -b "$build" -s "$work/all" >"$work/said" 2>&1 || { echo 'it fails:'; failed=1; }
for step in load goals-small goals-large device collectives layers streams-2 proxies-2 vllm-2 llmc-2 gpu-bench gpu-bench-stream memcheck-kernels \
  memcheck-collectives racecheck-kernels racecheck-collectives mps-streams-2 mps-proxies-2; do
  wants "ok      $step, "
done
wants 'skipped build: '
grep -Eq '^all-reduce of 8 bytes.* (reached|NOT REACHED)$' "$work/said" || { echo 'no verdict on a goal'; failed=1; }
grep -Eq '^graph replay.* reached$' "$work/said" || { echo 'no verdict on replay'; failed=1; }
grep -Eq '^communicator of 8 ranks: < 1000 ms +[0-9.]+ ms ' "$work/said" || { echo 'no time of joining'; failed=1; }
grep -Eq '^all-reduce of 8 ranks.*not measured$' "$work/said" || { echo 'a verdict on what was not seen'; failed=1; }
wants 'skipped nccl-tests: '
grep -Eq '^(skipped|ok     ) pytorch' "$work/said" || { echo 'pytorch is not mentioned'; failed=1; }
[ "$(tr '\n' ' ' <"$work/mps")" = 'start quit ' ] || { echo 'the multi-process service was not started and ended'; failed=1; }
[ "$(wc -l <"$work/sanitized")" = 4 ] || { echo 'not four programs ran under the sanitizer'; failed=1; }
grep -q "^tutti.*allreduce" "$work/all/gpu-bench.log" || { echo 'gpu_bench gave no figures'; failed=1; }
grep -q '^# nccl has no figures for 2 ranks' "$work/all/gpu-bench.log" || { echo 'NCCL is not mentioned'; failed=1; }
[ $failed = 0 ] || cat "$work/said"

# Resumed, and with what has been packed for another machine: nothing is run twice.
"$check" -p "$work/pack" "$build" >"$work/said" 2>&1 || { echo 'packing fails:'; cat "$work/said"; failed=1; }
grep -v '^ok      device, ' "$work/all/steps.txt" >"$work/steps" && mv "$work/steps" "$work/all/steps.txt"
"$check" -b "$work/pack" -s -r "$work/all" load tests >"$work/said" 2>&1 || { echo 'resuming fails:'; failed=1; }
wants 'skipped load: it has gone well before'
wants 'ok      device, '
wants 'skipped collectives: it has gone well before'
[ $failed = 0 ] || cat "$work/said"

# Ended by a signal, it ends what it has started, even where the signal comes as soon as that runs.
program compute-sanitizer 'echo $$ >"$WORK/sleeper"; sleep 100; exit 0'
: >"$work/mps"
# runs PID: it is there, and not only because nobody has waited for it.
runs() { grep -qs '^State:[[:space:]]*[^XZ[:space:]]' "/proc/$1/status"; }
for _ in $(seq 10); do
  rm -f "$work/sleeper"
  "$check" -b "$build" -s "$work/ended" sanitize >"$work/said" 2>&1 &
  checker=$!
  latest=$((SECONDS + 20))
  until [ -s "$work/sleeper" ] || [ $SECONDS -gt $latest ]; do :; done
  kill -TERM $checker
  wait $checker
  [ $? = 143 ] || { echo 'a signal does not end it'; failed=1; }
  [ -s "$work/sleeper" ] || { echo 'no step has begun'; failed=1; break; }
  ! runs "$(cat "$work/sleeper")" || { echo 'what it started goes on'; failed=1; }
done

# Where nothing can be built it says so and ends.
program meson 'echo no meson; exit 1'
(cd "$work" && "$check" -s "$work/unbuilt" build load >"$work/said" 2>&1) && { echo 'no build is no failure'; failed=1; }
wants 'FAILED  build, status 1'
wants 'without a build nothing can run'
rm "$work/bin/meson"

# What is missing is named; what fails fails; what is unknown is refused.
rm "$work/bin/nvidia-cuda-mps-control"
program compute-sanitizer 'exit 9'
if command -v nvidia-cuda-mps-control >/dev/null; then mps=''; else mps=mps; fi
"$check" -b "$build" -s "$work/some" sanitize $mps >"$work/said" 2>&1
[ $? = 1 ] || { echo 'a failing step is not seen'; failed=1; }
wants 'FAILED  racecheck-collectives, status 9'
[ -z "$mps" ] || wants 'skipped mps: '
"$check" -s "$work/none" nonsense >"$work/said" 2>&1
[ $? = 2 ] || { echo 'an unknown stage is not refused'; failed=1; }
exit $failed
