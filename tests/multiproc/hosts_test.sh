#!/bin/bash
# Several hosts on one: ranks with different TUTTI_HOSTID reach each other as ranks of different hosts do, and caches and
# sockets come from a machine that is given.
#   hosts_test.sh TUTTI_RUN HOSTS_RANKS
# Exit status 0: all collectives were right, by hierarchical algorithms, and the topology had all the hosts.
set -u
run=$1 ranks=$2
failed=0
dump=$(mktemp)
trap 'rm -f "$dump"' EXIT
export TUTTI_CALIBRATION=off TUTTI_TOPO_DUMP_FILE=$dump TUTTI_ALGO_STRICT=1
hierarchical=allreduce:hierarchical,allgather:hierarchical,reducescatter:hierarchical,broadcast:hierarchical,alltoall:hierarchical

# job HOSTS ARGS: a rank for every letter of HOSTS, on the host of that name.
job() {
  local hosts=$1
  shift
  "$run" -n ${#hosts} bash -c 'hosts=$1; shift; TUTTI_HOSTID=${hosts:$TUTTI_RANK:1} exec "$@"' - "$hosts" "$ranks" "$@" &&
    [ "$(grep -o 'host_hash="[^"]*"' "$dump" | sort -u | wc -l)" = "$(fold -w1 <<<"$hosts" | sort -u | wc -l)" ]
}
try() {
  if job "$@"; then
    echo "ok: $* on ${TUTTI_TOPO_FILE-this machine}, ${TUTTI_ALGO-as planned}"
  else
    echo "FAILED: $* on ${TUTTI_TOPO_FILE-this machine}, ${TUTTI_ALGO-as planned}"
    failed=1
  fi
}

try aabbb all
for hosts in aabbb abcab aaaab; do
  TUTTI_ALGO=$hierarchical try $hosts
done
TUTTI_ALGO=$hierarchical try abbcc all
# Links between hosts are measured, also where they are loopback.
for hosts in aabb abcab; do
  TUTTI_LINK_PROBE=always try $hosts
done
# Channels that start apart: the slices of each begin elsewhere.
TUTTI_ALGO=$hierarchical TUTTI_NCHANNELS=3 TUTTI_SLOT_BYTES=16384 try aabbb all
export TUTTI_TOPO_FILE='package:2 l3:2 core:1 nic:2x25' TUTTI_TOPO_CPUS=0/1/2/2/3
for hosts in aaaaabb aabbbcc; do
  TUTTI_ALGO=$hierarchical try $hosts
done
TUTTI_ALGO=$hierarchical try aaaaaa all
exit $failed
