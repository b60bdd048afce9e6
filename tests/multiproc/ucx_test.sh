#!/bin/bash
# Ranks as processes over UCX: its sockets and its shared memory.
#   ucx_test.sh TUTTI_RUN HOSTS_RANKS ALLOCATED_RANKS DEATH_RANKS OLD_UCX_FOLDER
# Exit status 0 if everything was right; 77 where UCX is not installed.
set -u
run=$1 hosts_ranks=$2 allocated_ranks=$3 death_ranks=$4 old_ucx=$5
failed=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Meson lets the loader search the folders of a test's libraries, that of the old UCX among them.
LD_LIBRARY_PATH=$(tr : '\n' <<<"${LD_LIBRARY_PATH:-}" | grep -vxF "$(realpath "$old_ucx")" | paste -sd :)
export LD_LIBRARY_PATH
export TUTTI_CALIBRATION=off TUTTI_TRANSPORTS=self,ucx

# check NAME COMMAND...
check() {
  local name=$1
  shift
  if "$@" >"$out/log" 2>&1; then
    echo "ok: $name"
  else
    echo "FAILED: $name"
    tail -n 40 "$out/log"
    failed=1
  fi
}
# check_says NAME PATTERN COMMAND...
check_says() {
  local name=$1 pattern=$2
  shift 2
  check "$name" "$@"
  grep -qE "$pattern" "$out/log" || { echo "FAILED: $name: no line has $pattern"; cat "$out/log"; failed=1; }
}
# fails COMMAND...
fails() { ! "$@"; }

# Not UCX at all, and one that is too old, which the loader finds first.
echo nothing >"$out/libucp.so.0"
refused() { LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} fails "$run" -n 2 --no-tag --timeout 20 "$hosts_ranks"; }
check_says 'a library that cannot be loaded' \
  'ucx: libucp.so.0 cannot be loaded \(.*\); Debian and Ubuntu have it in the package libucx0' refused "$out"
check_says 'a UCX that is too old' 'ucx: libucp.so.0 is of UCX 1.12.1; 1.13 or newer, of 1.x, is needed' refused "$old_ucx"
check_says 'the next transport' 'not used: libucp.so.0 is of UCX 1.12.1' env TUTTI_TRANSPORTS=self,ucx,tcp \
  LD_LIBRARY_PATH="$old_ucx" "$run" -n 2 "$hosts_ranks"
if "$run" -n 2 --no-tag "$hosts_ranks" 2>&1 | grep 'libucp.so.0 cannot be loaded' && [ $failed = 0 ]; then exit 77; fi
check_says 'no transport of UCX' "ucx: UCX 1.* cannot be used: .*transport 'nonsense' is not available.*UCX_TLS" \
  env UCX_TLS=nonsense bash -c '! "$0" -n 2 --no-tag --timeout 20 "$1"' "$run" "$hosts_ranks"
# Nobody gets it who has not asked for it.
not_asked() {
  TUTTI_TRANSPORTS=$1 TUTTI_LOG=ucx:info,comm:debug "$run" -n 2 --no-tag "$hosts_ranks" >"$out/log.own" 2>&1 || return 1
  cat "$out/log.own"
  ! grep -qE 'ucx[:-]' "$out/log.own"
}
for list in '' '^shm'; do check "TUTTI_TRANSPORTS='$list'" not_asked "$list"; done

for transport in tcp shm; do
  export UCX_TLS=$transport
  for n in 2 3 4; do
    check "$transport: all collectives, $n ranks" "$run" -n $n "$hosts_ranks" all
  done
  for mode in spin yield block; do
    check "$transport: waits that $mode" env TUTTI_WAIT=$mode "$run" -n 2 "$hosts_ranks"
  done
  # Memory of tuttiMemAlloc is registered, and messages are posted from it.
  check_says "$transport: allocated memory" 'went [0-9]+ messages, [0-9]+ of them from registered memory' \
    env TUTTI_LOG=ucx:debug "$run" -n 2 --no-tag "$allocated_ranks"
  [ "$transport" = shm ] || grep -qE ', [1-9][0-9]* of them from registered memory' "$out/log" ||
    { echo "FAILED: nothing was posted from registered memory"; failed=1; }
  # Rank 1 of 3 ends itself or stops; the others name it.
  survivors() {
    TUTTI_TIMEOUT_MS=2000 "$run" -n 3 --no-tag --timeout 6 "$death_ranks" 1 500 "$1" joined >"$out/ranks" 2>&1
    cat "$out/ranks"
    [ "$(grep -cE '^rank [02]: .*rank 1' "$out/ranks")" = 2 ]
  }
  check "$transport: a process that kills itself" survivors kill
done
unset UCX_TLS
check 'what UCX chooses' "$run" -n 3 "$hosts_ranks" all
check 'ranks of two hosts' env TUTTI_TRANSPORTS=self,shm,ucx "$run" -n 4 bash -c \
  'TUTTI_HOSTID=host$((TUTTI_RANK / 2)) exec "$0" all' "$hosts_ranks"
check 'a process that stops itself' survivors stop
# One of two ranks has no UCX: the next transport joins them.
check 'a rank without UCX' env TUTTI_TRANSPORTS=self,ucx,tcp "$run" -n 2 bash -c \
  '[ "$TUTTI_RANK" = 0 ] || export UCX_TLS=nonsense; exec "$0"' "$hosts_ranks"
exit $failed
