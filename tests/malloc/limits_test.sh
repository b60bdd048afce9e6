#!/bin/sh
# Where the system refuses what arenas are made of, the C library gives the memory.
# usage: limits_test.sh PROGRAM LIBRARY
set -eu
(ulimit -f 1000; LD_PRELOAD="$2" "$1" without)
(ulimit -v 1000000; LD_PRELOAD="$2" "$1" without)
TUTTI_MALLOC_LEAST=1G LD_PRELOAD="$2" "$1" without
said=$(TUTTI_MALLOC_LEAST=many LD_PRELOAD="$2" "$1" functions 2>&1)
case "$said" in *"TUTTI_MALLOC_LEAST is no number of bytes such as 64K: many"*) ;; *) echo "not told: $said"; exit 1 ;; esac
