#!/usr/bin/env bash
# tutti-info --export writes plans that --import reads, and both say what is wrong with what they are asked.
#   exchange_test.sh TUTTI_INFO FORMATS...
set -euo pipefail
info=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$*"
  exit 1
}
# says PATTERN ARGS...: fails, with the pattern in what it says
says() {
  local pattern=$1 text
  shift
  if text=$("$info" "$@" 2>&1); then fail "tutti-info $* went well"; fi
  grep -q -- "$pattern" <<<"$text" || fail "tutti-info $*: no '$pattern' in: $text"
}

for format in "$@"; do
  for algorithm in allreduce:ring alltoall:bruck2; do
    "$info" --export "$format" "$algorithm" --ranks 5 >"$folder/plan"
    text=$("$info" --import "$folder/plan")
    grep -q "tutti_${algorithm/:/_} ($format), ${algorithm%%:*} on 5 ranks" <<<"$text" || fail "$format $algorithm: $text"
    grep -q '^out of place: verified$' <<<"$text" || fail "$format $algorithm: $text"
    grep -q '^rank 4 of 5, ' <<<"$text" || fail "$format $algorithm: $text"
  done
  mkdir "$folder/plans"
  ending=$([ "$format" = msccl ] && echo xml || echo json)
  "$info" --export "$format" allreduce:ring --ranks 5 >"$folder/plans/five.$ending"
  text=$(TUTTI_CALIBRATION=off TUTTI_PLAN_DIR=$folder/plans "$info" --plan allreduce --bytes 64K --ranks 5)
  grep -q " plan of $folder/plans/five.$ending\$" <<<"$text" || fail "--plan does not compare plans of a folder: $text"
  rm -r "$folder/plans"
  "$info" --export "$format" allgather:ring --ranks 3 --in-place >"$folder/plan"
  "$info" --import "$folder/plan" | grep >/dev/null '^in place: verified$' || fail "$format in place"
  echo '<' >>"$folder/plan"
  says "$folder/plan" --import "$folder/plan"
  says 'ring could be' --export "$format" ring
  says 'there is no algorithm' --export "$format" allreduce:nothing
  says 'does not work on 3 ranks of one node: it needs a power of two of ranks' --export "$format" alltoall:hypercube --ranks 3
done
# Chunks that a step moves to one rank go out as one message where they lie side by side.
"$info" --export msccl allreduce:circulant --ranks 8 | grep 'cnt="[2-9]"' >/dev/null || { echo 'no step of several chunks'; exit 1; }
"$info" --export mscclpp allreduce:circulant --ranks 8 | grep '"put".*"size": [2-9]' >/dev/null || { echo 'no put of several chunks'; exit 1; }
says 'msccl or mscclpp' --export other allreduce:ring
says 'cannot read' --import "$folder/none"
says 'a barrier moves no data' --export msccl barrier:dissemination
says 'MSCCL++ has no broadcast' --export mscclpp broadcast:binomial
echo "plans of $* go out and come back"
