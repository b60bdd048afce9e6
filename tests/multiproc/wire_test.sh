#!/bin/bash
# Sums that are rounded between hosts (TUTTI_WIRE): ranks of one machine on several hosts by TUTTI_HOSTID.
#   wire_test.sh TUTTI_RUN WIRE_RANKS HOSTS_RANKS [ways | all]
# ways: by every algorithm, channels and protocols that may round, encrypted, and with results compared; nothing else.
# all: by every format on few ranks and on several, every kind of data in every type, and nothing else.
# Exit status 0: all sums were within their bounds, AllReduce gave all ranks the same bits by every algorithm, and all
# else was exact.
set -u
run=$1 wire_ranks=$2 hosts_ranks=$3
failed=0
export TUTTI_CALIBRATION=off TUTTI_ALGO_STRICT=1

# job HOSTS PROGRAM ARGS: a rank for every letter of HOSTS, on the host of that name.
job() {
  local hosts=$1
  shift
  "$run" -n ${#hosts} --no-tag bash -c 'hosts=$1; shift; TUTTI_HOSTID=${hosts:$TUTTI_RANK:1} exec "$@"' - "$hosts" "$@"
}
try() {
  if job "$@"; then
    echo "ok: $* by ${TUTTI_ALGO-the planner}"
  else
    echo "FAILED: $* by ${TUTTI_ALGO-the planner}"
    failed=1
  fi
}

# Every algorithm that may round, and those that may not and stay exact.  Small slots: many slices.
if [ "${4-}" = ways ]; then
  for algorithm in ring tree halvingdoubling circulant twoshot paramserver recursivedoubling oneshot; do
    TUTTI_ALGO=allreduce:$algorithm TUTTI_WIRE=int8 TUTTI_SLOT_BYTES=16384 try abc "$wire_ranks" int8
  done
  TUTTI_ALGO=allreduce:hierarchical TUTTI_WIRE=fp8 TUTTI_NCHANNELS=3 TUTTI_SLOT_BYTES=16384 try abcab "$wire_ranks" fp8
  TUTTI_ALGO=allreduce:torus2d TUTTI_PROTO=direct TUTTI_WIRE=fp8 try abab "$wire_ranks" fp8
  TUTTI_WIRE=int8 TUTTI_NCHANNELS=2 TUTTI_ENCRYPT=1 TUTTI_TRANSPORTS=tcp,self try aba "$wire_ranks" int8
  # Small integers are exact in both; what all ranks get is compared by the library, too.
  for format in bf16 int8; do
    TUTTI_WIRE=$format TUTTI_CHECK_RESULTS=1 try aabbb "$hosts_ranks" all
  done
  exit $failed
fi
for format in full bf16 fp8 int8; do
  for hosts in aabbb ${4:+ab}; do
    TUTTI_WIRE=$format try $hosts "$wire_ranks" $format ${4-}
  done
done
[ "${4-}" != all ] || exit $failed
TUTTI_ALGO=allreduce:hierarchical,reducescatter:hierarchical TUTTI_WIRE=bf16 try aabbcc "$wire_ranks" bf16
# Inside one host nothing is rounded: the same bits as without.
[ "$(TUTTI_WIRE=full job aaa "$wire_ranks" full again)" = "$(TUTTI_WIRE=int8 job aaa "$wire_ranks" full again)" ] ||
  { echo 'FAILED: a host of its own rounds'; failed=1; }
# Reproducible: the same bits in every run, whatever was measured.
for format in bf16 int8; do
  export TUTTI_WIRE=$format TUTTI_REPRODUCIBLE=1
  first=$(job aab "$wire_ranks" $format again) && second=$(TUTTI_LINK_PROBE=always job aab "$wire_ranks" $format again) &&
    [ "$first" = "$second" ] && echo "ok: reproducible $format, $first" || { echo "FAILED: reproducible $format"; failed=1; }
done
unset TUTTI_REPRODUCIBLE
# Ranks that differ are told, all of them.
said=$("$run" -n 2 --no-tag bash -c '[ $TUTTI_RANK = 0 ] && export TUTTI_WIRE=bf16 || export TUTTI_WIRE=int8; exec "$@"' - "$hosts_ranks" 2>&1)
grep -q 'has other settings than rank 0.*wire=bf16' <<<"$said" && grep -q 'has other settings than rank 1.*wire=int8' <<<"$said" &&
  echo 'ok: ranks that differ' || { echo "FAILED: ranks that differ: $said"; failed=1; }
exit $failed
