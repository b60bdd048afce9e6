# In the guest: what is tested is told one by one.
# thorough WORDS...: these words where TUTTI_TEST_THOROUGH is set.  Emulation takes its time for what others show, too.
thorough() { [ -z "${TUTTI_TEST_THOROUGH:-}" ] || echo "$*"; }
failed=0
log=/tmp/log
# check NAME COMMAND...
check() {
  local name=$1 start=$SECONDS
  shift
  if (: >"$log" && "$@") >"$log.own" 2>&1; then
    echo "ok: $name ($((SECONDS - start)) s)"
  else
    echo "FAILED: $name"
    tail -n 40 "$log.own" "$log"
    failed=1
  fi
}
