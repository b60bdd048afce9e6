"""perf/memory end to end: every memory has times and ratios, in both kinds of data.  Usage: FILE TOP BUILD"""
import os
import re
import subprocess
import sys

TOP, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])


def main():
    for more in ([], ["--fresh"]):
        done = subprocess.run([sys.executable, os.path.join(TOP, "perf", "memory", "memory"), "--build", BUILD, "--ranks", "2,3", "--ops",
                               "allreduce,broadcast", "--sizes", "64K", "--rounds", "1", "--cell-ms", "1", "--warm-ms", "1", *more],
                              capture_output=True, text=True)
        rows = re.findall(r"^(?:allreduce|broadcast) +[23] +64 KiB(?: +[0-9.]+){7}$", done.stdout, re.M)
        summaries = re.findall(r"^(?:plain|adopted|preloaded): within 5 % of registered in [0-4] of 4 cells", done.stdout, re.M)
        if done.returncode != 0 or len(rows) != 4 or len(summaries) != 3:
            sys.exit(f"FAILED: exit status {done.returncode}, {len(rows)} rows, {len(summaries)} sums\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    main()
