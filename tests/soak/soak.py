#!/usr/bin/env python3
"""Several jobs at once for a long time, on fewer cores than ranks: soak.py TUTTI_RUN SOAK_RANKS [SECONDS] [JOBS] [RANKS].

Jobs go by shm, tcp, and both in turn.  Prints what each rank holds, and ends with 1 if a result was wrong or a rank's memory,
descriptors or threads have grown; /dev/shm is to be as it was.  Memory is to be what is held: glibc's allocator
keeps free what it took for large buffers, in pieces, and more the longer it runs, unless it gives large ones back."""
import os
import subprocess
import sys

run, ranks_program = sys.argv[1:3]
seconds, jobs, ranks = ((sys.argv[3:] + ["", "", ""])[i] or default for i, default in enumerate(("600", "3", "4")))
before = set(os.listdir("/dev/shm"))
started = []
for job in range(int(jobs)):
    transports = ("shm", "tcp", "shm,tcp")[job % 3]
    environment = {**os.environ, "TUTTI_TRANSPORTS": transports, "TUTTI_CALIBRATION": "off", "MALLOC_ARENA_MAX": "1",
                   "MALLOC_TRIM_THRESHOLD_": "131072"}
    process = subprocess.Popen([run, "-n", ranks, ranks_program, seconds], env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    started.append((transports, process))
bad = 0
for transports, process in started:
    output, _ = process.communicate(timeout=int(seconds) * 3 + 300)
    print(f"job over {transports}: exit status {process.returncode}\n{output}")
    bad += process.returncode != 0
left = set(os.listdir("/dev/shm")) - before
print(f"{len(started)} jobs of {ranks} ranks on {os.cpu_count()} cores for {seconds} s: {bad} failed, "
      f"{len(left)} files left in /dev/shm")
sys.exit(1 if bad or left else 0)
