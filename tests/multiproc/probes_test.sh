#!/usr/bin/env bash
# The library has its probes.  usage: probes_test.sh LIBTUTTI
set -euo pipefail
notes=$(readelf -n "$1")
for probe in call_begin call_end; do
  grep -A2 "Provider: tutti" <<<"$notes" | grep -q "Name: $probe" || { echo "no probe $probe in $1:"; echo "$notes"; exit 1; }
done
