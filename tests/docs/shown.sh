# For tests of what a program prints; to be sourced, with $program set.

# shows TEXT ARGUMENTS...: what is printed has TEXT in it.
shows() {
  local text=$1 out
  shift
  out=$("$program" "$@")
  grep -q -- "$text" <<<"$out" || { echo "no '$text' from $(basename "$program") $*:"; echo "$out"; exit 1; }
}
# refuses TEXT ARGUMENTS...: fails, and says TEXT.
refuses() {
  local text=$1 out
  shift
  if out=$("$program" "$@" 2>&1); then echo "$(basename "$program") $* did not fail"; exit 1; fi
  grep -q -- "$text" <<<"$out" || { echo "no '$text' from $(basename "$program") $*:"; echo "$out"; exit 1; }
}
