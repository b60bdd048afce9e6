#!/usr/bin/env bash
set -euo pipefail
meson setup build --prefix="$PREFIX" --libdir=lib --buildtype=release --unity=on --unity-size=12 \
  -Dtests=disabled -Dcuda=disabled
ninja -C build -j"${CPU_COUNT:-2}"
meson install -C build --no-rebuild
