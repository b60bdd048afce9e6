#!/usr/bin/env bash
# tutti-info --plan on described machines.  usage: plan_test.sh TUTTI_INFO TOPOLOGIES
set -euo pipefail
program=$1
. "$(dirname "$0")/shown.sh"
topologies=$2
export TUTTI_CALIBRATION=off
unset TUTTI_ALGO TUTTI_PROTO TUTTI_NCHANNELS TUTTI_TOPO_FILE

line='gpu:8 nvlink:18x25 nic:8x50'
shows '^256 ranks on host memory: .*32 hosts, .*400 GB/s out of a host$' --plan allreduce --bytes 16M --topo "$line" --hosts 32
shows '  \* ' --plan allreduce --bytes 16M --topo "$line" --hosts 32
shows 'reason: .* on the busiest core' --plan allreduce --bytes 16M --topo "$line" --hosts 32
shows '^plan allgather 64K on 8 ranks (shm-processes)' --plan allgather --bytes 64K --topo "$line"
shows '^plan broadcast 1M on 6 ranks' --plan broadcast --topo "$line" --hosts 2 --ranks 6
shows '^plan allreduce 1M on 32 ranks' --plan allreduce --topo "node:4 $line"
shows '^plan allreduce 1M on 2 ranks' --plan allreduce --topo 'node:1 package:2'
shows 'by [0-9]* ranks and its formula' --plan allreduce --topo "$line" --hosts 125
shows 'the topology tells no speeds of ports' --plan allreduce --topo 'node:1 package:2' --hosts 3
shows '1.5 ranks per core' --plan allreduce --topo 'node:1 package:2 core:2' --ranks 6
shows 'cuda-blocks, 4 ranks on one device): twoshot, direct' --plan allreduce --bytes 64M --ranks 4 --way cuda-blocks
shows 'of work on the busiest device' --plan allreduce --ranks 4 --way cuda-blocks
shows 'cuda-streams, 8 devices joined by NVLink of 450 GB/s' --plan allgather --topo "$line" --way cuda-streams
shows 'cuda-streams, 2 ranks on a device, 8 devices' --plan allgather --topo "$line" --ranks 16 --way cuda-streams
shows 'cuda-proxy over shm-processes + tcp-remote' --plan allreduce --topo "$line" --hosts 2 --way cuda-proxy
shows 'published figures' --plan allreduce --way cuda-streams
refuses 'cuda-blocks, cuda-streams or cuda-proxy' --plan allreduce --way cuda
refuses 'between hosts there is cuda-proxy alone' --plan allreduce --topo "$line" --hosts 2 --way cuda-blocks
refuses 'has no GPUs' --plan allreduce --topo 'node:1 package:2' --way cuda-blocks
for file in "$topologies"/*.xml; do
  shows 'reason: ' --plan allreduce --bytes 16M --topo "$file" --hosts 2
done
refuses 'requires' --topo "$line"
refuses 'has 4' --plan allreduce --topo "node:4 $line" --hosts 3
refuses 'on 4 hosts' --plan allreduce --topo "$line" --hosts 4 --ranks 3
refuses 'no-such-file' --plan allreduce --topo no-such-file.xml
