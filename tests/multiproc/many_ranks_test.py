#!/usr/bin/env python3
"""Many ranks as processes of one machine come up, reduce, and leave nothing.  usage: FILE TUTTI_RUN MANY_RANKS N..."""
import os
import subprocess
import sys

from leftovers import left_behind, shared_memory

# What one rank takes at most, with room: a machine with less is left alone.
MIB_A_RANK = 32


def available_mib():
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) // 1024 for line in info if line.startswith("MemAvailable"))


def main():
    run, program = sys.argv[1:3]
    bad = 0
    skipped = 0
    before = shared_memory()
    for n in map(int, sys.argv[3:]):
        if available_mib() < n * MIB_A_RANK:
            print(f"{n} ranks: skipped, needs {n * MIB_A_RANK} MiB")
            skipped += 1
            continue
        job = subprocess.run([run, "-n", str(n), "--timeout", "240", program], capture_output=True, text=True,
                             env=dict(os.environ, TUTTI_TIMEOUT_MS="120000"))
        print(job.stdout, end="")
        if job.returncode != 0:
            bad += 1
            said = sorted(set(job.stderr.splitlines()))  # mostly the same of all ranks
            print(f"{n} ranks: exit status {job.returncode}", *said[:20], sep="\n")
    left = left_behind(program, before)
    if left:
        bad += 1
        print(f"left behind: {left}")
    return 1 if bad else 77 if skipped == len(sys.argv) - 3 else 0


if __name__ == "__main__":
    sys.exit(main())
