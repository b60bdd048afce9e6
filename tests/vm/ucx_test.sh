#!/bin/bash
# In the guest: the transport ucx over the device of device.sh, by UCX's reliable connections and by its datagrams.
#   ucx_test.sh BUILD_FOLDER
# Exit status 0 if everything was right; 77 where UCX is not installed.
set -u
build=$1
. "$(dirname "$0")/check.sh"
[ -n "$(ldconfig -p | grep 'libucp.so.0')" ] || { echo 'SKIP: no libucp.so.0: install libucx0'; exit 77; }
run=$build/tools/tutti-run ranks=$build/tests/multiproc
# UCX's connections come up by datagrams, all of which its check of addresses drops on Soft-RoCE.
export UCX_NET_DEVICES=rxe0:1 UCX_UD_VERBS_ETH_DGID_CHECK=n TUTTI_CALIBRATION=off TUTTI_TRANSPORTS=self,ucx

for transport in rc_verbs ud_verbs; do
  export UCX_TLS=$transport,ud_verbs,self
  # Datagrams take long here.
  if [ $transport = rc_verbs ]; then
    check "$transport: conformance" env TUTTI_TEST_ROWS=ucx "$build/tests/conformance/test_conformance" -# \
      '[#conformance_test],[#requests_test]'
    counts="$(thorough 2) 3"
  else
    counts=2
  fi
  for n in $counts; do
    check "$transport: all collectives, $n ranks" "$run" -n $n "$ranks/hosts_ranks" all
  done
  # It is what carries the messages.
  over() { TUTTI_LOG=ucx:debug "$run" -n 2 "$ranks/hosts_ranks" >"$log" 2>&1 && grep -q "ucx: rank [01] by $transport/rxe0:1" "$log"; }
  check "$transport: over the device" over
  # Memory of tuttiMemAlloc is registered, and messages are put where they belong.
  allocated() {
    TUTTI_LOG=ucx:debug "$run" -n 2 "$ranks/allocated_ranks" >"$log" 2>&1 && grep -q ', [1-9][0-9]* of them from registered' "$log"
  }
  check "$transport: allocated memory" allocated
  check "$transport: asleep" env TUTTI_WAIT=block "$run" -n 2 "$ranks/hosts_ranks"
  # Rank 1 of 3 ends itself when its connections are up; the others name it.  The machine may be busy with other things.
  survivors() {
    TUTTI_TIMEOUT_MS=60000 "$run" -n 3 --no-tag --timeout 120 "$ranks/death_ranks" 1 6000 kill joined >"$log" 2>&1
    [ "$(grep -cE '^rank [02]: .*rank 1' "$log")" = 2 ]
  }
  check "$transport: a process that kills itself" survivors
done
exit $failed
