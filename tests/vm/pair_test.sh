#!/bin/bash
# In each of two guests: ranks of two machines over a wire that takes 5 ms and loses packets.
#   pair_test.sh BUILD_FOLDER
# Exit status 0 if everything was right.
set -u
build=$1
failed=0
port=29500
modprobe sch_netem && tc qdisc add dev eth0 root netem limit 10000 delay 5ms loss 1% || exit 1
lost() { tc -s qdisc show dev eth0 | sed -n 's/.*dropped \([0-9]*\).*/\1/p'; }

# ranks PER_MACHINE TRANSPORT: all collectives; the other machine does the same.
ranks() {
  local per=$1 rank status=0 pids=()
  port=$((port + 1))
  for rank in $(seq $((VM_HOST * per)) $((VM_HOST * per + per - 1))); do
    RANK=$rank WORLD_SIZE=$((2 * per)) LOCAL_RANK=$((rank % per)) LOCAL_WORLD_SIZE=$per MASTER_ADDR=10.88.0.1 \
      MASTER_PORT=$port TUTTI_TRANSPORTS=self,shm,$2 timeout 120 "$build/tests/multiproc/hosts_ranks" all &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || status=1; done
  return $status
}

# 0.1 s, and as much again until the peer counts as lost, 6 times: a busy host may keep a guest waiting for that long.
# One core is for two ranks.
export TUTTI_CALIBRATION=off TUTTI_SOCKET_IFNAME=eth0 TUTTI_IB_TIMEOUT=15 TUTTI_WAIT=block
for transport in verbs tcp; do
  for per in 1 2; do
    before=$(lost) start=$SECONDS name="all collectives over $transport, $((2 * per)) ranks on two machines"
    if ranks $per $transport; then
      echo "ok: $name ($((SECONDS - start)) s, $(($(lost) - before)) packets lost here)"
    else
      echo "FAILED: $name"
      failed=1
    fi
  done
done
[ "$(lost)" -gt 0 ] || { echo "FAILED: nothing was lost"; failed=1; }
exit $failed
