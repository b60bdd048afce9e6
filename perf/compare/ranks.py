#!/usr/bin/env python3
"""Starts the ranks of a library that has no launcher: ranks.py COUNT PROGRAM [FIRST].  FIRST: the number of the first.

All are in this process's session, as an MPI launcher's ranks are in the launcher's.  Linux shares a processor among
sessions first (autogroups): ranks with a session each would take twice as long to hand a core on.
When one fails the others are ended, and so is this, with its status."""
import os
import signal
import subprocess
import sys


def main(count, program, first=0):
    ranks = [subprocess.Popen([program], env=dict(os.environ, COMPARE_RANK=str(first + r))) for r in range(count)]
    left = {r.pid: r for r in ranks}
    status = 0

    def end(*_):
        for rank in left.values():
            rank.kill()
    signal.signal(signal.SIGTERM, end)
    while left:
        pid, ended = os.wait()
        rank = left.pop(pid, None)
        if rank is None or ended == 0 or status != 0:
            continue
        status = os.waitstatus_to_exitcode(ended)
        end()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
