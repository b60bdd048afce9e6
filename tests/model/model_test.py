#!/usr/bin/env python3
"""Checks agreement.pml with Spin: every state that the protocol gets to, and that each of its rules is needed.

  model_test.py           3 ranks with any crashes and exclusions, 4 with one crash, and the protocol without each rule
  model_test.py brief     3 ranks with any crashes, and the protocol without one rule
  model_test.py thorough  3 to 5 ranks with more of all that
  model_test.py -DRANKS=4 -DCRASHES=2 -DEPOCHS=1 [-DPARTED] [-DCYCLES] ...
                          one world, as the head of agreement.pml describes them; -DCYCLES searches for what goes on for ever

Exits with 77 and the reason where spin or a C compiler is missing."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "agreement.pml"
CODE = HERE.parents[1] / "src/membership"
SAFETY, CYCLES = "-DSAFETY", "-DNP"
MIB = 4000  # of memory, at most
COMPILER = shlex.split(os.environ.get("CC") or "cc")

QUICK = (
    (SAFETY, "-DRANKS=2 -DCRASHES=2 -DEPOCHS=3"),
    (SAFETY, "-DRANKS=3 -DCRASHES=3"),
    (SAFETY, "-DRANKS=3 -DCRASHES=2 -DEXCLUDE=0"),
    (SAFETY, "-DRANKS=3 -DCRASHES=2 -DEXCLUDE=1"),
    (SAFETY, "-DRANKS=3 -DCRASHES=2 -DEXCLUDE=2"),
    (CYCLES, "-DRANKS=3 -DCRASHES=0 -DPARTED"),
    (SAFETY, "-DRANKS=4 -DCRASHES=1 -DEPOCHS=1"),
)
THOROUGH = (
    (SAFETY, "-DRANKS=3 -DCRASHES=3 -DEPOCHS=3"),
    (CYCLES, "-DRANKS=3 -DCRASHES=3"),
    (CYCLES, "-DRANKS=3 -DCRASHES=2 -DEXCLUDE=0"),
    (CYCLES, "-DRANKS=3 -DCRASHES=1 -DPARTED"),
    (SAFETY, "-DRANKS=4 -DCRASHES=4"),
    (CYCLES, "-DRANKS=4 -DCRASHES=4 -DEPOCHS=1"),
    (SAFETY, "-DRANKS=4 -DCRASHES=1 -DEXCLUDE=1 -DEPOCHS=1"),
    (SAFETY, "-DRANKS=5 -DCRASHES=1 -DEPOCHS=1"),
)
# The rule that is missing, the world in which that shows, and the assertion that then fails.
AGREEMENT, VALIDITY, TERMINATION, NO_CYCLE = "outcome[", "votes[", "dead[i]", "non-progress cycle"
NEEDED = (
    ("WAITING_FOR_VOTES", SAFETY, "-DCRASHES=2", VALIDITY),
    ("FETCHING_PROPOSALS", SAFETY, "-DCRASHES=2", AGREEMENT),
    ("WAITING_FOR_KEPT", SAFETY, "-DCRASHES=2", AGREEMENT),
    ("GOING_ON_WITH_A_PROPOSAL", SAFETY, "-DCRASHES=2", AGREEMENT),
    ("GIVING_UP_THE_DEAD", SAFETY, "-DCRASHES=1", TERMINATION),
    ("ANSWERS_TO_ORDERS", SAFETY, "-DCRASHES=0", TERMINATION),
    ("TELLING_THE_EXCLUDED", SAFETY, "-DCRASHES=0 -DEXCLUDE=0", TERMINATION),
    ("AN_END_OF_ANSWERS", CYCLES, "-DCRASHES=0 -DPARTED", NO_CYCLE),
)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def search(kind, world, folder):
    """What Spin's search says of a world: (errors, states, the whole text)."""
    said = run(["spin", "-a", *world.split(), str(MODEL)], folder)
    compiler = [*COMPILER, "-O1", "-w", kind, "-DCOLLAPSE", "-DNOREDUCE", "-DVECTORSZ=4096",
                f"-DMEMLIM={MIB}", "-o", "pan", "pan.c"]
    if said[0] == 0:
        said = run(compiler, folder)
    if said[0] != 0:
        return -1, 0, said[1]
    text = run(["./pan", "-m1000000"] + (["-l"] if kind == CYCLES else []), folder)[1]
    errors, states = re.search(r"errors: (\d+)", text), re.search(r"(\d+) states, stored", text)
    complete = "Search not completed" not in text and "max search depth too small" not in text
    if errors and states and (complete or errors[1] != "0"):
        return int(errors[1]), int(states[1]), text
    return -1, 0, text


def trail(world, folder):
    """The way to the error: the steps of ranks, without what happens within them."""
    text = run(["spin", "-t", "-c", *world.split(), str(MODEL)], folder)[1]
    return "\n".join(text.splitlines()[:80])


def check_worlds(worlds, folder):
    bad = 0
    for kind, world in worlds:
        errors, states, text = search(kind, world, folder)
        print(f"{'ok    ' if errors == 0 else 'FAILED'} {world}{' (cycles)' if kind == CYCLES else ''}: {states} states")
        if errors != 0:
            bad += 1
            print(text[-3000:])
            print(trail(world, folder) if errors > 0 else "the search did not come to its end")
    return bad


def check_rules(rules, folder):
    bad = 0
    for rule, kind, world, assertion in rules:
        errors, states, text = search(kind, f"-DRANKS=3 {world} -DWITHOUT_{rule}", folder)
        failed = re.search(r"pan:\d+: (.*)", text)
        found = errors > 0 and failed and assertion in failed[1]
        print(f"{'ok    ' if found else 'FAILED'} {world} without {rule.lower().replace('_', ' ')}: "
              f"{failed[1][:60] if failed else 'nothing found'}")
        if not found:
            bad += 1
            print(text[-2000:])
        if f"WITHOUT_{rule}" not in MODEL.read_text():
            bad += 1
            print(f"FAILED: the model knows no rule {rule}")
    return bad


def check_names():
    """The model has the code's functions and states, by their names."""
    header, model = (CODE / "agreement.hpp").read_text(), MODEL.read_text()
    machine = header[header.index("class Agreement"):]
    functions = set(re.findall(r"^  [\w:<>&]+(?: [\w:<>&]+)* (\w+)\([^)]*\)(?: const)?;", machine, re.M))
    # send(), comments and SUFFICES have countVotes(), message() and suffices(); links of the model break by deaths alone, so
    # nothing is said anew.  Whom a rank waits for is for sentences, and so is an order that is repeated to tell it:
    # tests/unit/membership repeats them under seeds, with deaths.
    beyond = {"take", "goOnWith", "waitingOn", "countVotes", "message", "suffices", "leads", "lacking"}
    wanted = functions - beyond
    there = set(re.findall(r"^inline (\w+)\(", model, re.M))
    phases = set(re.search(r"enum class Phase : uint8_t \{ ([\w, ]+) \}", machine)[1].split(", "))
    modelled = set(re.findall(r"^#define (\w+) \d", model, re.M))
    lacking = sorted(wanted - there) + sorted(phases - modelled)
    print(f"{'FAILED' if lacking else 'ok    '} names of {len(wanted)} functions and {len(phases)} phases of src/membership/agreement.hpp"
          + (f": the model lacks {', '.join(lacking)}" if lacking else ""))
    return len(lacking) + (len(wanted) < 9) + (len(phases) < 3)


def main():
    for tool in ("spin", COMPILER[0]):
        if not shutil.which(tool):
            print(f"skipped: there is no {tool} here (tools/install-dependencies check installs it)")
            return 77
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1 and sys.argv[1].startswith("-D"):
            kind = CYCLES if "-DCYCLES" in sys.argv else SAFETY
            return check_worlds([(kind, " ".join(sys.argv[1:]))], folder) > 0
        if sys.argv[1:] == ["thorough"]:
            return check_worlds(THOROUGH, folder) > 0
        brief = sys.argv[1:] == ["brief"]
        worlds, rules = (QUICK[1:2], NEEDED[:1]) if brief else (QUICK, NEEDED)
        return check_names() + check_worlds(worlds, folder) + check_rules(rules, folder) > 0


if __name__ == "__main__":
    sys.exit(main())
