#!/bin/bash
# Ranks as processes with profiler and tuner plugins written for NCCL: those of tests/support.
#   plugins_test.sh TUTTI_RUN HOSTS_RANKS CUDA_RANKS PROFILER_FOLDER TUNER_FOLDER FAKE_CUDA_FOLDER
# Exit status 0 if everything was right.
set -u
run=$1 ranks=$2 cuda_ranks=$3 profilers=$4 tuners=$5 fake_cuda=$6
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TUTTI_CALIBRATION=off PROFILER_PLUGIN_FILE=$folder/events TUTTI_PROFILER_PLUGIN=$profilers/libnccl-profiler-test6.so

fail() {
  echo "FAILED: $1"
  tail -n 20 "$folder/out"
  failed=1
}

# check NAME N COMMAND...: the command is right, and plugins have seen the same collectives on all N ranks, by the rules.
check() {
  local name=$1 n=$2 rank
  shift 2
  rm -f "$folder"/events.* "$folder"/colls.*
  "$@" >"$folder/out" 2>&1 || { fail "$name"; return; }
  for ((rank = 0; rank < n; ++rank)); do
    if [ ! -s "$folder/events.$rank" ] || grep '^complaint' "$folder/events.$rank" >>"$folder/out"; then
      fail "$name: events of rank $rank"
      return
    fi
    # What is the same on all ranks: not roots' counts, nor what goes by pointers.
    sed -nE "s/^rank $rank coll (\\w+) (seq=[0-9]+) .*( channels=[0-9]+ algo=[^ ]+).*/\\1 \\2\\3/p" "$folder/events.$rank" \
      >"$folder/colls.$rank"
    if ! cmp -s "$folder/colls.0" "$folder/colls.$rank" || [ ! -s "$folder/colls.0" ]; then
      diff "$folder/colls.0" "$folder/colls.$rank" >>"$folder/out"
      fail "$name: calls of rank $rank"
      return
    fi
  done
  echo "ok: $name"
}

for n in 2 3 4; do
  check "a profiler, $n ranks" $n "$run" -n $n "$ranks" all
done
check 'a profiler over sockets' 3 env TUTTI_TRANSPORTS=self,tcp "$run" -n 3 "$ranks" all
grep -q ' proxyop channel=0 peer=1 send=1 .* in coll' "$folder/events.0" || fail 'no traffic is told'
for version in 4 5; do
  check "a profiler of version $version" 2 \
    env TUTTI_PROFILER_PLUGIN="$profilers/libnccl-profiler-test$version.so" "$run" -n 2 "$ranks" all
done
check 'a profiler by its suffix' 2 env LD_LIBRARY_PATH="$profilers${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
  TUTTI_PROFILER_PLUGIN=test6 "$run" -n 2 "$ranks"

# By streams and by proxies; the plugin ends a process that breaks its rules.
for executor in stream proxy; do
  env LD_LIBRARY_PATH="$fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TUTTI_CUDA_EXECUTOR=$executor PROFILER_PLUGIN_STRICT=1 \
    "$run" -n 2 --no-tag "$cuda_ranks" 2 devices=2 >"$folder/out" 2>&1 || fail "CUDA ranks, $executor"
  grep -q '^rank 0 kernelch .* state=22 in coll' "$folder/events.0" || fail "CUDA ranks, $executor: no channels are told"
  echo "done: CUDA ranks, $executor"
done

# Rank 0's file counts on all ranks, whatever others have.
export TUTTI_TUNER_PLUGIN=$tuners/libnccl-tuner-test6.so
echo 'allreduce,0,4294967295,tree,simple,2,1,4' >"$folder/rank0.csv"
echo 'allreduce,0,4294967295,ring,simple,1,1,4' >"$folder/other.csv"
check 'a tuner with a file for each rank' 4 "$run" -n 4 bash -c \
  'export NCCL_TUNER_CONFIG_FILE=$1/other.csv; [ "$TUTTI_RANK" != 0 ] || NCCL_TUNER_CONFIG_FILE=$1/rank0.csv; exec "$0" all' \
  "$ranks" "$folder"
grep -q '^AllReduce .* channels=2 algo=TREE' "$folder/colls.3" || fail 'no call goes as rank 0 wants it'
grep '^AllReduce ' "$folder/colls.3" | grep -v ' algo=TREE' >>"$folder/out" && fail 'a call goes otherwise than rank 0 wants it'
for n in 2 3; do
  check "a tuner without rules, $n ranks" $n env TUNER_PLUGIN_WHIM=1 "$run" -n $n "$ranks" all
done
for version in 4 5; do
  check "a tuner of version $version" 4 env TUTTI_TUNER_PLUGIN="$tuners/libnccl-tuner-test$version.so" \
    NCCL_TUNER_CONFIG_FILE="$folder/other.csv" "$run" -n 4 "$ranks" all
  grep -q '^AllReduce .* channels=1 algo=RING' "$folder/colls.2" || fail "version $version: no call goes as the file says"
done
exit $failed
