#!/bin/sh
# The library must load where there is no NVIDIA software: needed_test.sh LIBRARY
set -eu
needed=$(readelf -d "$1" | grep NEEDED)
if echo "$needed" | grep -Ei 'cuda|nvidia'; then
  echo "$1 is linked against CUDA"
  exit 1
fi
echo "$needed" | grep -q libc.so
