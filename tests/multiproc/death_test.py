#!/usr/bin/env python3
"""A rank is killed (or stopped) at a random moment; every survivor returns an error naming it, and nothing is left.

usage: death_test.py TUTTI_RUN DEATH_RANKS ROUNDS [SEED]
"""
import os
import random
import re
import subprocess
import sys
import tempfile


def memory_files():
    return {name for name in os.listdir("/dev/shm")}


def tutti_sockets():
    with open("/proc/net/unix") as table:
        return {line.split()[-1] for line in table if "tutti" in line}


def one_round(run, program, rng):
    """"" or what is wrong."""
    n_ranks = rng.choice([2, 3, 4])
    victim = rng.randrange(n_ranks)
    delay_ms = rng.choice([0, 1, 2, 5, 10, 20, 50, rng.randrange(100)])
    how = "kill" if rng.random() < 0.9 else "stop"
    transports = rng.choice(["shm,tcp,self", "tcp,self"])
    environment = dict(os.environ, TUTTI_TRANSPORTS=transports, TUTTI_TIMEOUT_MS="2000")
    what = f"{n_ranks} ranks, {how} of rank {victim} after {delay_ms} ms, {transports}"
    with tempfile.TemporaryFile("w+") as out:
        job = subprocess.Popen([run, "-n", str(n_ranks), "--tag-output", "--grace", "8",
                                "--timeout", "9", program, str(victim),
                                str(delay_ms), how], stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            job.wait(timeout=60)
        except subprocess.TimeoutExpired:
            job.kill()
            return f"{what}: the job hung"
        out.seek(0)
        text = out.read()
    for rank in range(n_ranks):
        if rank == victim:
            continue
        line = re.search(rf"rank {rank}: (.*)", text)
        if not line:
            return f"{what}: rank {rank} said nothing\n{text}"
        # Who has not met the others yet cannot know the number of the one that is gone.
        named = re.search(rf"\brank {victim}\b|\branks? .*\b{victim}\b|meeting", line.group(1))
        if not named:
            return f"{what}: rank {rank} does not name rank {victim}\n{text}"
    return ""


def main():
    run, program, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(os.environ.get("TUTTI_TEST_SEED", "0")) or None
    seed = random.randrange(1 << 30) if seed is None else seed
    rng = random.Random(seed)
    before = memory_files(), tutti_sockets()
    bad = 0
    for index in range(rounds):
        why = one_round(run, program, rng)
        if why:
            bad += 1
            print(f"round {index} of seed {seed}: {why}")
            if bad == 5:
                break
    after = memory_files(), tutti_sockets()
    if after[0] - before[0] or after[1] - before[1]:
        bad += 1
        print(f"left behind: {after[0] - before[0]} {after[1] - before[1]}")
    print(f"{rounds} rounds, seed {seed}, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
