#!/bin/bash
# Folders of plans that differ between processes: an error that names the rank; the same plans: they run, in place too;
# jobs of other sizes go on without them.
#   plan_dir_test.sh TUTTI_RUN HOSTS_RANKS TUTTI_INFO
set -u
run=$1 ranks=$2 info=$3
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TUTTI_CALIBRATION=off
mkdir "$dir/one" "$dir/two"
for d in one two; do "$info" --export msccl allreduce:circulant --ranks 3 >"$dir/$d/theirs.xml" || failed=1; done

# job RANKS: the third rank has the second folder.
job() { "$run" -n "$1" bash -c 'TUTTI_PLAN_DIR=$1/$([ $TUTTI_RANK = 2 ] && echo two || echo one) exec "$2"' - "$dir" "$ranks"; }
# good NAME COMMAND
good() {
  if "${@:2}" >"$dir/out" 2>&1; then echo "ok: $1"; else echo "FAILED: $1:"; cat "$dir/out"; failed=1; fi
}
# bad NAME WORDS COMMAND: fails with those words.
bad() {
  if "${@:3}" >"$dir/out" 2>&1 || ! grep -q "$2" "$dir/out"; then
    echo "FAILED: $1:"; cat "$dir/out"; failed=1
  else
    echo "ok: $1"
  fi
}
# said TIMES WORDS: on so many lines of the last output.
said() {
  local times
  times=$(grep -c "$2" "$dir/out")
  if [ "$times" != "$1" ]; then echo "FAILED: $times times: $2"; cat "$dir/out"; failed=1; fi
}

# An AllReduce with an endpoint for each receiver, which in place would overwrite what other endpoints have to send.
shout() {
  local n=$1 r p tb src dep wait
  local at="srcoff='0' dstbuf='o' dstoff='0' cnt='1'"
  echo "<algo name='shout' ngpus='$n' nchunksperloop='1' coll='allreduce' inplace='0'>"
  for ((r = 0; r < n; ++r)); do
    echo "<gpu id='$r' i_chunks='1' o_chunks='1' s_chunks='0'>"
    tb=0
    for ((p = 0; p < n; ++p)); do
      [ $p = $r ] && continue
      echo "<tb id='$tb' send='$p' recv='-1' chan='$p'>"
      echo "<step s='0' type='s' srcbuf='i' $at depid='-1' deps='-1' hasdep='0'/></tb>"
      ((++tb))
    done
    for ((p = 1; p < n; ++p)); do
      src=o dep=$((tb - 1)) wait=0
      [ $p = 1 ] && src=i dep=-1 wait=-1
      echo "<tb id='$tb' send='-1' recv='$(((r + p) % n))' chan='$r'>"
      echo "<step s='0' type='rrc' srcbuf='$src' $at depid='$dep' deps='$wait' hasdep='$((p < n - 1))'/></tb>"
      ((++tb))
    done
    echo "</gpu>"
  done
  echo "</algo>"
}

TUTTI_ALGO=allreduce:theirs TUTTI_ALGO_STRICT=1 good "the same plans" job 3
TUTTI_ALGO=allreduce:theirs good "plans for other ranks" job 4
said 1 "rank 0: TUTTI_ALGO=theirs does not serve allreduce of 4 bytes on 4 ranks: it is for 3 ranks; chosen by cost: "
said 1 "does not serve"
TUTTI_ALGO=allreduce:theirs TUTTI_ALGO_STRICT=1 bad "plans for other ranks, strictly" \
  "it is for 3 ranks; these would: ring, tree, " job 4
for name in TUTTI_JOIN TUTTI_ALGO_STRICT; do
  bad "$name on one rank alone" "other settings than rank" \
    "$run" -n 3 bash -c 'export $2=$((TUTTI_RANK == 2)); exec "$1"' - "$ranks" $name
done

for n in 2 3 5; do
  mkdir "$dir/shout$n"
  shout $n >"$dir/shout$n/shout.xml"
  for with in TUTTI_PROTO=slots TUTTI_PROTO=direct TUTTI_TRANSPORTS=self,tcp; do
    good "a copy of what is in place, $n ranks, $with" env "$with" TUTTI_PLAN_DIR=$dir/shout$n \
      TUTTI_ALGO=allreduce:shout "$run" -n $n "$ranks"
    said 0 "does not serve allreduce"
  done
done

echo >>"$dir/two/theirs.xml"
bad "plans that differ" 'TUTTI_PLAN_DIR: rank 2 has 1 plans with fingerprint' job 3
"$info" --export msccl allreduce:circulant --ranks 5 >"$dir/two/theirs.xml"
TUTTI_ALGO=allreduce:theirs bad "different plans for other ranks" "rank 2 has 0 plans .*it is for 5 ranks, rank 0 has" job 4
rm "$dir/two/theirs.xml"
TUTTI_ALGO=allreduce:theirs bad "a name on some ranks" "rank 2: TUTTI_ALGO: allreduce has no algorithm 'theirs'" job 4
exit $failed
