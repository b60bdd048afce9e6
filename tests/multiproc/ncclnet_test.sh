#!/bin/bash
# Ranks as processes over network plugins written for NCCL: those of tests/support/net_plugin, and Tutti's own.
#   ncclnet_test.sh TUTTI_RUN HOSTS_RANKS DEATH_RANKS PLUGIN_FOLDER LIBNCCL_NET_TUTTI
# Exit status 0 if everything was right.
set -u
run=$1 hosts_ranks=$2 death_ranks=$3 plugins=$4 own=$5
failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
export TUTTI_CALIBRATION=off TUTTI_TRANSPORTS=self,ncclnet TUTTI_NET_PLUGIN=$plugins/libnccl-net-test11.so

# check NAME COMMAND...
check() {
  local name=$1
  shift
  if "$@" >"$out" 2>&1; then
    echo "ok: $name"
  else
    echo "FAILED: $name"
    tail -n 40 "$out"
    failed=1
  fi
}

# Afterwards nothing is under way.
for n in 2 3 4; do
  check "all collectives, $n ranks" env TUTTI_LOG=ncclnet:info "$run" -n $n "$hosts_ranks" all
  if grep -q 'closed with requests' "$out"; then
    echo "FAILED: $n ranks, at the end:"
    cat "$out"
    failed=1
  fi
done
for version in 8 9 10 12; do
  check "version $version" env TUTTI_NET_PLUGIN="$plugins/libnccl-net-test$version.so" "$run" -n 2 "$hosts_ranks"
done
# By its suffix, in a list, where the loader looks.
check 'a suffix' env LD_LIBRARY_PATH="$plugins${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TUTTI_NET_PLUGIN=nosuch,test9 \
  "$run" -n 2 "$hosts_ranks"
check 'ranks of two hosts' env TUTTI_TRANSPORTS=self,shm,ncclnet "$run" -n 4 bash -c \
  'TUTTI_HOSTID=host$((TUTTI_RANK / 2)) exec "$0" all' "$hosts_ranks"
for mode in spin yield block; do
  check "waits that $mode" env TUTTI_WAIT=$mode "$run" -n 2 "$hosts_ranks"
done
# One of two ranks has no plugin: the next transport joins them.
check 'a rank without a plugin' env TUTTI_TRANSPORTS=self,ncclnet,tcp "$run" -n 2 bash -c \
  '[ "$TUTTI_RANK" = 0 ] || export TUTTI_NET_PLUGIN=none; exec "$0"' "$hosts_ranks"
# Rank 1 of 3 ends itself or stops; the others name it.
survivors() {
  TUTTI_TIMEOUT_MS=3000 "$run" -n 3 --no-tag --timeout 20 "$death_ranks" 1 500 "$1" joined >"$out.ranks" 2>&1
  local named
  named=$(grep -cE '^rank [02]: .*rank 1' "$out.ranks")
  cat "$out.ranks"
  rm -f "$out.ranks"
  [ "$named" = 2 ]
}
for how in kill stop; do check "a process that does $how itself" survivors $how; done
# The plugin fails in calls: they say so.
broken() {
  "$run" -n 2 --no-tag --timeout 20 bash -c '[ "$TUTTI_RANK" = 1 ] || export NET_PLUGIN_FAULT=isend; exec "$0"' "$hosts_ranks" &&
    return 1
  return 0
}
check_says() {
  check "$1" "${@:3}"
  grep -qE "$2" "$out" || { echo "FAILED: $1: no line has $2"; cat "$out"; failed=1; }
}
check_says 'a plugin that fails' \
  'rank 1 over ncclnet \(plugin Sockets for tests v11, device net0\): isend gave ncclSystemError \(the cable was pulled\)' broken
nowhere() {
  TUTTI_NET_PLUGIN=/nonexistent "$run" -n 2 --no-tag --timeout 20 "$hosts_ranks" && return 1
  return 0
}
check_says 'no other transport' 'ncclnet: TUTTI_NET_PLUGIN: /nonexistent: cannot be loaded' nowhere

# Tutti's tcp as such a plugin.
export TUTTI_NET_PLUGIN=$own TUTTI_PLUGIN_TRANSPORT=tcp
for n in 2 3 4; do
  check "all collectives over libnccl-net-tutti, $n ranks" "$run" -n $n "$hosts_ranks" all
done
check 'libnccl-net-tutti by its suffix' env LD_LIBRARY_PATH="${own%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TUTTI_NET_PLUGIN=tutti \
  TUTTI_NSOCKETS=1 TUTTI_SLOT_BYTES=9000 "$run" -n 2 "$hosts_ranks" all
check 'libnccl-net-tutti, asleep' env TUTTI_WAIT=block "$run" -n 2 "$hosts_ranks"
check 'over libnccl-net-tutti, a process that does kill itself' survivors kill
without_verbs() {
  TUTTI_PLUGIN_TRANSPORT=pigeon "$run" -n 2 --no-tag --timeout 20 "$hosts_ranks" && return 1
  return 0
}
check_says 'no such transport' "TUTTI_PLUGIN_TRANSPORT='pigeon' is neither verbs nor tcp" without_verbs
exit $failed
