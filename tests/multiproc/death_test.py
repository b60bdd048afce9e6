#!/usr/bin/env python3
"""A rank is killed (or stopped, or makes another call than the others) at a random moment; every survivor returns an
error naming it, and nothing is left.  Prints how long that took; a loaded machine takes longer, so no time is a fault.

usage: death_test.py TUTTI_RUN DEATH_RANKS ROUNDS [SEED]
"""
import collections
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

from leftovers import left_behind, shared_memory


def output_of(run, program, n_ranks, odd, delay_ms, how, since, transports):
    """All that the ranks printed; None if the job hung."""
    environment = dict(os.environ, TUTTI_TRANSPORTS=transports, TUTTI_TIMEOUT_MS="2000")
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen([run, "-n", str(n_ranks), "--no-tag", "--grace", "8", "--timeout", "9", program, str(odd),
                                str(delay_ms), how, since], stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            job.wait(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            return None
        out.seek(0)
        return out.read()


def delays_ms(text):
    """From the odd rank's deed to each return of a call that failed; nothing from ranks that had not joined."""
    odd = re.search(r"^odd (\d+)$", text, re.M)
    returned = re.findall(r"^rank \d+ returned (\d+)$", text, re.M)
    return [max(0, int(at) - int(odd.group(1))) / 1e6 for at in returned] if odd else []


def one_round(run, program, rng, times):
    """"" or what is wrong."""
    n_ranks = rng.choice([2, 3, 4])
    odd = rng.randrange(n_ranks)
    delay_ms = rng.choice([0, 1, 2, 5, 10, 20, 50, rng.randrange(100)])
    how = rng.choice(["kill"] * 7 + ["stop"] + ["differ"] * 2)
    since = rng.choice(["start", "joined"])
    transports = rng.choice(["shm,tcp,self", "tcp,self"])
    what = f"{n_ranks} ranks, {how} of rank {odd} {delay_ms} ms after {since}, {transports}"
    text = output_of(run, program, n_ranks, odd, delay_ms, how, since, transports)
    if text is None:
        return f"{what}: the job hung"
    for rank in range(n_ranks):
        if rank == odd and how != "differ":
            continue
        line = re.search(rf"rank {rank}: (.*)", text)
        if not line:
            return f"{what}: rank {rank} said nothing\n{text}"
        # Who has not met the others yet cannot know the number of the one that is gone.
        if not re.search(rf"\brank {odd}\b|\branks? .*\b{odd}\b|rendezvous", line.group(1)):
            return f"{what}: rank {rank} does not name rank {odd}\n{text}"
    times[how, "shm" if "shm" in transports else "tcp"] += delays_ms(text)
    return ""


def print_times(times):
    deeds = {"kill": "a rank is killed", "stop": "a rank is stopped (deadline 2000 ms)", "differ": "a call differs"}
    for (how, transport), ms in sorted(times.items()):
        if ms:
            print(f"{deeds[how]}, {transport}: {len(ms)} ranks returned an error after {statistics.median(ms):.2f} ms in "
                  f"the median, {max(ms):.2f} ms at most")


def main():
    run, program, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(os.environ.get("TUTTI_TEST_SEED", "0")) or None
    seed = random.randrange(1 << 30) if seed is None else seed
    rng = random.Random(seed)
    before = shared_memory()
    times = collections.defaultdict(list)
    bad = 0
    for index in range(rounds):
        why = one_round(run, program, rng, times)
        if why:
            bad += 1
            print(f"round {index} of seed {seed}: {why}")
            if bad == 5:
                break
    left = left_behind(program, before)
    if left:
        bad += 1
        print(f"left behind: {left}")
    print_times(times)
    print(f"{rounds} rounds, seed {seed}, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
