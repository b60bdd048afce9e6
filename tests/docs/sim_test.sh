#!/usr/bin/env bash
# tutti-sim as docs/simulation.md shows it.  usage: sim_test.sh TUTTI_SIM TUTTI_INFO FORMATS...
set -euo pipefail
program=$1 info=$2
shift 2
. "$(dirname "$0")/shown.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cluster='nodes 4; machine gpu:8 nvlink:18x20.6 nic:8x50'
printf '# four nodes\n%s\n' "${cluster//; /$'\n'}" >"$folder/cluster.txt"

shows 'allreduce hierarchical, 64M, 4 nodes of 8 ranks' "$cluster" --algorithm hierarchical --bytes 64M --links 2 --critical-path
shows 'busbw' "$folder/cluster.txt" --algorithm ring --trace "$folder/ring.json"
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["traceEvents"]) > 100' "$folder/ring.json"
shows 'ring' "$folder/cluster.txt" --algorithm ring,hierarchical --bytes 64M --fail nic
# A port's link has one cable, an NVLink many: the second is taken, unless the first is asked for.
shows 'one of the 18 cables of link [0-9]*, .*NVSwitch' "$cluster" --algorithm ring --bytes 64M --fail link
shows 'the only cable of link 16, .*; cut off: rank 0$' "$cluster" --algorithm ring --bytes 64M --fail link:16
shows '^ *ring .*the only cable of link .*; cut off: ranks 0, 3$' \
  'nodes 16; machine gpu:1 nic:1x50; fabric torus dims:4x4 gbps:25' --algorithm ring --bytes 64M --fail link
refuses 'nobody to exchange' 'nodes 2; machine gpu:1 nic:1x50' --algorithm ring --fail link
shows 'circulant' "$folder/cluster.txt" --compare --svg "$folder/compare.svg"
python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$folder/compare.svg"
shows 'all sets that have a specification' --validate
# Machines by name: the page has the table that the program prints, and what it counts on one.
page="$(dirname "$0")/../../docs/simulation.md"
"$program" --machines >"$folder/machines"
[ "$(wc -l <"$folder/machines")" -gt 10 ] || { echo "few machines have names"; exit 1; }
python3 -c 'import sys; page, table = (open(name).read() for name in sys.argv[1:]); assert table in page, "docs/simulation.md has another table than --machines"' "$page" "$folder/machines"
"$program" 'nodes 4; machine hgx-h100' --algorithm hierarchical --count | sed 's/^/    /' >"$folder/count"
python3 -c 'import sys; page, said = (open(name).read() for name in sys.argv[1:]); assert said in page, "docs/simulation.md shows other bytes than --count"' "$page" "$folder/count"
# As NCCL: the page shows what the program prints.
for arguments in '--bytes 64M' '--compare --min 16K --max 256M --factor 16'; do
  # shellcheck disable=SC2086
  "$program" hgx-h100 --as nccl $arguments | sed 's/^/    /' >"$folder/nccl"
  python3 -c 'import sys; page, said = (open(name).read() for name in sys.argv[1:]); assert said in page, "docs/simulation.md shows other times than --as nccl"' "$page" "$folder/nccl"
done
# As Tutti: by the executors' messages the simulator says what the planner does, which has prices and wires of its own.
for pair in 'resident cuda-blocks' 'stream cuda-streams'; do
  read -r executor way <<<"$pair"
  for bytes in 1K 16K 64K; do
    "$program" hgx-h100 --as tutti --executor "$executor" --bytes "$bytes" --algorithm ring,twoshot,oneshot,recursivedoubling >"$folder/simulated"
    TUTTI_CALIBRATION=off "$info" --plan allreduce --bytes "$bytes" --way "$way" \
      --topo 'gpu:8 nvlink:18x20.6 nvswitch:4 sm:90' >"$folder/planned"
    python3 - "$folder/simulated" "$folder/planned" "$executor" "$bytes" <<'END'
import re, sys
simulated = dict(re.findall(r"^allreduce (\w+), .*: ([\d.]+) us", open(sys.argv[1]).read(), re.M))
planned = dict(re.findall(r"^[ *]+(\w+) +(?:slots|inline) +([\d.]+) us", open(sys.argv[2]).read(), re.M))
assert len(simulated) == 4 and set(simulated) <= set(planned), (simulated, planned)
for name, us in simulated.items():
    assert 0.9 < float(us) / float(planned[name]) < 1.1, f"{sys.argv[3:]} {name}: simulated {us} us, planned {planned[name]}"
END
  done
done
refuses 'executors run on CUDA' mi300x --as tutti
refuses 'there are auto, resident' hgx-h100 --as tutti --executor blocks
refuses 'between nodes there is proxy alone' 'nodes 2; machine hgx-h100' --as tutti --executor resident
refuses 'RCCL' mi300x --as nccl
refuses 'NCCL has ring, tree, nvls' hgx-h100 --as nccl --algorithm oneshot
refuses 'no algorithm is left' hgx-h100 --as nccl --algorithm tree --collective allgather
refuses 'gather is not modelled' hgx-h100 --as nccl --collective gather
shows '1 node of 8 ranks' hgx-h100 --bytes 4K
refuses 'nor a machine by name: dgx-2' hgx-h99
refuses 'hierarchical does not work for 8 ranks' hgx-h100 --algorithm ring,hierarchical
refuses 'hierarchical does not work for 8 ranks' hgx-h100 --algorithm hierarchical --count
refuses 'nodes' 'nodes many; machine gpu:8 nvlink:18x20.6' --algorithm ring
refuses 'warp' "$cluster; fabric warp" --algorithm ring
# A plan of a file takes as long as the algorithm that it was written from.
for format in "$@"; do
  "$info" --export "$format" allreduce:ring --ranks 8 >"$folder/plan"
  shows 'allreduce tutti_allreduce_ring, 1M, 1 node of 8 ranks' 'machine gpu:8 nvlink:18x20.6' --plan "$folder/plan"
  refuses 'is a plan for 8 ranks; here are 4' 'machine gpu:4 nvlink:18x20.6' --plan "$folder/plan"
  refuses 'one of them' 'machine gpu:8 nvlink:18x20.6' --plan "$folder/plan" --algorithm ring
done
if [[ " $* " == *" msccl "* ]]; then
  "$info" --export msccl allreduce:ring --ranks 8 >"$folder/plan"
  took() { "$program" 'machine gpu:8 nvlink:18x20.6' --bytes 64M --out-of-place "$@" | sed -n 's/.* ranks: \(.*\) us, busbw.*/\1/p'; }
  [ "$(took --plan "$folder/plan")" = "$(took --algorithm ring)" ] || { echo "a plan takes other than its algorithm"; exit 1; }
fi
