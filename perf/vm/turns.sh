#!/bin/bash
# In the guest of tests/vm: the limit, Tutti and Open MPI over UCX by turns.
#   turns.sh BUILD_FOLDER TURNS BYTES...
# TUTTI_TEST_VM_BEFORE: another build folder of Tutti, which takes the turn before.
# Lines: who, what, bytes, least and median microseconds; of "bw" the median MB/s of blocks.
set -u
build=$1
turns=$2
shift 2
export UCX_NET_DEVICES=rxe0:1 UCX_TLS=rc,ud,self UCX_UD_VERBS_ETH_DGID_CHECK=n
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TUTTI_CALIBRATION=off TUTTI_TRANSPORTS=self,verbs

# limit PROGRAM BYTES ITERATIONS: its line of figures.
limit() {
  "$1" -d rxe0 -s "$2" -n "$3" >/dev/null 2>&1 &
  local server=$!
  sleep 0.7
  "$1" -d rxe0 -s "$2" -n "$3" 127.0.0.1 2>/dev/null | awk '$1 ~ /^[0-9]+$/ && NF >= 5'
  wait $server
}

# tutti WHO BUILD_FOLDER ARGUMENTS...
tutti() { "$2/tools/tutti-run" -n 2 --no-tag "$2/perf/vm/calls" "${@:3}" | sed "s/^/$1 /"; }

echo  # what the machine wrote while it booted ends here
for _ in $(seq "$turns"); do
  for bytes in "$@"; do
    limit ib_write_lat "$bytes" $((4194304 / (bytes + 12000) + 5)) | awk '{print "limit pingpong", $1, $3, $5}'
    if [ "$bytes" -ge 65536 ]; then limit ib_write_bw "$bytes" $((16777216 / bytes + 5)) | awk '{print "limit bw", $1, $3, $4}'; fi
  done
  [ -z "${TUTTI_TEST_VM_BEFORE:-}" ] || tutti before "$TUTTI_TEST_VM_BEFORE" "$@"
  tutti tutti "$build" "$@"
  tutti registered "$build" registered "$@"
  mpirun -n 2 --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl ^openib,tcp \
    "$build/perf/vm/calls-mpi" "$@" 2>/dev/null | sed 's/^/openmpi /'
done
