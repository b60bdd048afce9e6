#!/bin/bash
# In the guest: the transport verbs over the device of device.sh.
#   verbs_test.sh BUILD_FOLDER
# Exit status 0 if everything was right.
set -u
build=$1
. "$(dirname "$0")/device.sh"
. "$(dirname "$0")/check.sh"
run=$build/tools/tutti-run

check 'a second adapter' second_adapter
check 'conformance' env TUTTI_TEST_ROWS=verbs "$build/tests/conformance/test_conformance" -# \
  '[#conformance_test],[#requests_test],[#verbs_test]'

export TUTTI_CALIBRATION=off TUTTI_TRANSPORTS=self,verbs
for n in $(thorough 2 4) 3; do
  check "all collectives, $n ranks" "$run" -n $n "$build/tests/multiproc/hosts_ranks" all
done
check 'ranks of two hosts' env TUTTI_TRANSPORTS=self,shm,verbs "$run" -n 4 bash -c \
  'TUTTI_HOSTID=host$((TUTTI_RANK / 2)) exec "$0" all' "$build/tests/multiproc/hosts_ranks"
# Memory of tuttiMemAlloc is registered, and messages are put where they belong.
allocated() {
  TUTTI_LOG=verbs:debug "$run" -n 2 "$build/tests/multiproc/allocated_ranks" >"$log" 2>&1 && grep -q '[1-9][0-9]* of them straight' "$log"
}
check 'allocated memory' allocated
check 'asleep' env TUTTI_WAIT=block "$run" -n 2 "$build/tests/multiproc/hosts_ranks"
# Two ports of a rank, and several queue pairs on each: both adapters carry about as much.
sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }
railed() {
  local first second
  first=$(sent rxe0) second=$(sent rxe1)
  TUTTI_IB_HCA='=rxe1,rxe0' TUTTI_IB_RAILS=2 TUTTI_IB_QPS_PER_CONNECTION=2 TUTTI_LOG=verbs:debug "$@" "$run" -n 2 \
    "$build/tests/multiproc/allocated_ranks" >"$log" 2>&1 || return
  first=$(($(sent rxe0) - first)) second=$(($(sent rxe1) - second))
  echo "packets: $first and $second" >>"$log"
  [ $((first * 3)) -gt $second ] && [ $((second * 3)) -gt $first ] &&
    grep -q 'rxe1:1 with its rxe1:1, rxe0:1 with its rxe0:1 by 2 queue pairs each; here are 2 ports, there 2' "$log"
}
[ -z "$(thorough all)" ] || check 'two ports of a rank' railed env
check 'two ports of a rank, messages split over four queue pairs' railed env TUTTI_IB_SPLIT_DATA_ON_QPS=1
check 'all collectives, 3 ranks with two ports and adaptive routing' env TUTTI_IB_RAILS=2 TUTTI_IB_ADAPTIVE_ROUTING=1 \
  TUTTI_IB_AR_THRESHOLD=0 "$run" -n 3 "$build/tests/multiproc/hosts_ranks" all
# One rank has two ports, the other one: they use the one that both have.
check 'a rank with a port more' "$run" -n 2 bash -c 'export TUTTI_IB_RAILS=$((2 - TUTTI_RANK)); exec "$0"' \
  "$build/tests/multiproc/hosts_ranks"
refused() {
  ! "$run" -n 2 --no-tag bash -c 'export TUTTI_IB_QPS_PER_CONNECTION=$((2 + TUTTI_RANK)); exec "$0"' \
    "$build/tests/multiproc/hosts_ranks" >"$log" 2>&1 && grep -q 'TUTTI_IB_QPS_PER_CONNECTION is [23] here and [23] on rank' "$log"
}
check 'as many queue pairs on all ranks' refused
# Two adapters with a wire between them, which is slow and loses packets: they are sent again, as often as it takes
# (7: for ever) where the machine is busy, too.
wired() {
  TUTTI_IB_TIMEOUT=12 TUTTI_IB_RETRY_CNT=7 "$run" -n 2 bash -c 'TUTTI_IB_HCA=rxe_$TUTTI_RANK exec "$0"' "$build/tests/multiproc/hosts_ranks" >"$log" 2>&1 &&
    [ "$(cat /sys/class/infiniband/rxe_[01]/ports/1/hw_counters/completer_retry_err | paste -sd+ | bc)" -gt 0 ]
}
check 'two adapters' two_adapters
check 'a wire that loses packets' wired
# Rank 1 of 3 ends itself or stops; the others name it.
survivors() {
  TUTTI_TIMEOUT_MS=4000 "$run" -n 3 --no-tag --timeout 20 "$build/tests/multiproc/death_ranks" 1 1500 "$1" joined >"$log" 2>&1
  [ "$(grep -cE '^rank [02]: .*rank 1' "$log")" = 2 ]
}
for how in kill stop; do check "a process that does $how itself" survivors $how; done
# The port goes down while ranks call: they say so, and which.
unplugged() {
  (sleep 4; ip link set d0 down; sleep 6; ip link set d0 up) &
  "$run" -n 2 --no-tag --grace 20 --timeout 60 "$build/tests/multiproc/death_ranks" 7 0 kill joined >"$log" 2>&1
  wait
  grep -qE '^rank [01]: .*over verbs \(rxe0:1\): ' "$log"
}
check 'a port that goes down' unplugged
# One of two ports goes down: the other one carries everything, and each rank says so once.
unrailed() {
  local seconds=$SECONDS
  (sleep 5; "$@") &
  TUTTI_IB_HCA='=rxe1,rxe0' TUTTI_IB_RAILS=2 "$run" -n 2 --no-tag --timeout 90 "$build/tests/multiproc/steady_ranks" 10 300000 >"$log" 2>&1 || return
  wait
  echo "took $((SECONDS - seconds)) s" >>"$log"
  [ "$(grep -c 'warn verbs: .*(rxe1:1): .*the traffic of this port moves to rxe0:1' "$log")" = 2 ]
}
if [ -n "$(thorough all)" ]; then
  check 'one of two ports goes down' unrailed ip link set d1 down
  ip link set d1 up
fi
# It goes down and comes back while ranks call: each rank says both, and the port carries its part again.
returned() {
  local back
  (sleep 5; ip link set d1 down; sleep 5; ip link set d1 up; sleep 3; sent rxe1 >"$log.back") &
  TUTTI_IB_HCA='=rxe1,rxe0' TUTTI_IB_RAILS=2 "$run" -n 2 --no-tag --timeout 120 "$build/tests/multiproc/steady_ranks" 20 300000 >"$log" 2>&1 || return
  wait
  back=$(($(sent rxe1) - $(cat "$log.back")))
  echo "packets since 3 s after it was up: $back" >>"$log"
  [ "$(grep -c 'warn verbs: .*(rxe1:1): .*the traffic of this port moves to rxe0:1' "$log")" = 2 ] &&
    [ "$(grep -c 'verbs: .*(rxe1:1): the port is back, and carries its part again' "$log")" = 2 ] && [ "$back" -gt 100 ]
}
check 'one of two ports goes down and comes back' returned
# One thread after the other cannot be had: errors that say so, and nothing left.
starved() { LD_PRELOAD=$build/tests/faults/libfailing_calls.so "$build/tests/faults/fault_points" --kind thread --calls "$1" >"$log" 2>&1; }
for calls in basic $(thorough threads); do check "threads that cannot be had in $calls calls" starved $calls; done
# A user who may lock little memory.
unlocked() {
  su nobody -s /bin/bash -c "ulimit -l 200; TUTTI_UNIQUE_ID= exec '$run' -n 2 --no-tag '$build/tests/multiproc/hosts_ranks'" >"$log" 2>&1
  grep -q 'rxe0:1 cannot register .* a limit of 204800 bytes of locked memory (ulimit -l)' "$log"
}
check 'a limit of locked memory' unlocked
# One of two ranks has no device: verbs joins them nowhere, and the next transport does.
check 'a rank without a device' env TUTTI_TRANSPORTS=self,verbs,tcp "$run" -n 2 bash -c \
  '[ "$TUTTI_RANK" = 0 ] || export TUTTI_IB_HCA==none; exec "$0"' "$build/tests/multiproc/hosts_ranks"
exit $failed
