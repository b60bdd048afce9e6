#!/usr/bin/env python3
"""What users read of some hundred mistakes, against tests/golden/errors.txt.
usage: errors_test.py SOURCE BUILD [--update]

A block of the golden file is a name, the message, and which words of it name the rank, the peer, the object, the reason and
the remedy.  Those words have to be in the message.
--update writes the messages of this build and keeps what the blocks say of them."""
import ctypes
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
GOLDEN = SOURCE / "tests/golden/errors.txt"
INFO, EXAMPLE = str(BUILD / "tools/tutti-info"), str(BUILD / "examples/example_allreduce")
CODES = SOURCE / "tests/golden/error_codes.txt"  # those of all releases; --update adds what is new
PARTS = ("rank", "peer", "object", "reason", "remedy")
FEWEST = 60

HEAD = f"""# What users read of mistakes.  Written by tests/errors/errors_test.py --update; the lines under a message name its parts.
"""

# Mistakes in the environment of a program that is started by hand: its name, and the variables.
ENVIRONMENT = {
    "algo-unknown": {"TUTTI_ALGO": "rng"},
    "algo-of-other-collective": {"TUTTI_ALGO": "alltoall:ring"},
    "algo-collective-unknown": {"TUTTI_ALGO": "allreduces:ring"},
    "proto-unknown": {"TUTTI_PROTO": "telepathy"},
    "join-unknown": {"TUTTI_JOIN": "maybe"},
    "transport-unknown": {"TUTTI_TRANSPORTS": "self,pigeon"},
    "number-malformed": {"TUTTI_TIMEOUT_MS": "soon"},
    "number-out-of-range": {"TUTTI_SLOTS": "1"},
    "size-malformed": {"TUTTI_SLOT_BYTES": "big"},
    "flag-malformed": {"TUTTI_ENCRYPT": "2"},
    "choice-unknown": {"TUTTI_INTEGRITY": "sha", "TUTTI_TRANSPORTS": "self,tcp"},
    "device-unknown": {"TUTTI_DEVICE": "toaster"},
    "cuda-without-driver": {"TUTTI_DEVICE": "cuda", "LD_LIBRARY_PATH": ""},
    "log-malformed": {"TUTTI_LOG": "loud"},
    "topology-missing": {"TUTTI_TOPO_FILE": "/nonexistent/machine.xml"},
    "topology-line": {"TUTTI_TOPO_FILE": "gpu:8 nvlink:many"},
    "plans-missing": {"TUTTI_PLAN_DIR": "/nonexistent/plans"},
    "interface-missing": {"TUTTI_SOCKET_IFNAME": "=nosuch0", "TUTTI_TRANSPORTS": "self,tcp"},
    "family-unknown": {"TUTTI_SOCKET_FAMILY": "ipx", "TUTTI_TRANSPORTS": "self,tcp"},
    "tuner-missing": {"TUTTI_TUNER_PLUGIN": "/nonexistent/tuner.so"},
    "profiler-missing": {"TUTTI_PROFILER_PLUGIN": "/nonexistent/profiler.so"},
    "signal-unknown": {"TUTTI_DUMP_SIGNAL": "KILL"},
    "record-name": {"TUTTI_TRACE": "/tmp/trace.%x"},
    "record-folder": {"TUTTI_TRACE": "/proc/records/"},
    "launcher-id-missing": {"TUTTI_RANK": "0", "TUTTI_NRANKS": "2"},
    "launcher-id-malformed": {"TUTTI_RANK": "0", "TUTTI_NRANKS": "2", "TUTTI_UNIQUE_ID": "xyz"},
    "launcher-rank": {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
    "launcher-address": {"RANK": "0", "WORLD_SIZE": "2"},
    "launcher-port": {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "99999"},
    "nobody-at-rendezvous": {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9",
                             "TUTTI_TIMEOUT_MS": "300"},
    "no-pmix": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
    "address-range": {"TUTTI_IB_ADDR_RANGE": "10.0/8"},
    "wait-unknown": {"TUTTI_WAIT": "nap"},
    "wire-unknown": {"TUTTI_WIRE": "fp16"},
}


def cleaned(text):
    """Without what differs from run to run and from host to host."""
    text = text.replace(socket.gethostname(), "HOST")
    text = re.sub(r"\d+\.\d+\.\d+\.\d+:\d+|\[[0-9a-f:]+(%\w+)?\]:\d+", "ADDRESS", text)
    text = re.sub(r"(, |,)ADDRESS", "", text)
    text = re.sub(r"\(process \d+", "(process N", text)
    text = re.sub(r"\b\d+(\.\d)? m?s\b", "N ms", text)
    text = re.sub(r"up are: .*?(?= \[TUTTI|$)", "up are: ...", text)
    text = re.sub(r"of user \d+", "of user N", text)
    text = re.sub(r"(abstract Unix socket )[^ )]+", r"\1NAME", text)
    text = re.sub(r"(known are |transport of this build \()[^\[)]*?(?=\)| \[)", r"\1...", text)  # builds differ
    text = re.sub(r"\[TUTTI_ALGO=.*?(nChannels=\d+).*?\]", r"[... \1 ...]", text)  # settings, which grow
    text = re.sub(r"RTMIN\+[1-9]\d*", "RTMIN+N", text)
    return re.sub(r"0x[0-9a-f]+", "0xN", text).strip()


def in_order(text):
    """The same whichever rank came first."""
    if "ranks 1 and 0 wait" in text:
        text = re.sub(r"\b(rank |ranks )([01])( and )?([01])?", lambda m: m[1] + "".join(
            {"0": "1", "1": "0"}.get(part, part) for part in m.groups("")[1:]), text)
    return text.replace("rank 0 joins a communicator of 2 ranks, but rank 1 one of 3",
                        "rank 1 joins a communicator of 3 ranks, but rank 0 one of 2")


def has_cuda_driver():
    try:
        return ctypes.CDLL("libcuda.so.1") is not None
    except OSError:
        return False


def messages():
    """Name and message of every mistake."""
    found = {}
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("TUTTI_", "NCCL_", "OMPI_", "PMI", "SLURM_")) and k not in ("RANK", "WORLD_SIZE")}
    clean["TUTTI_CALIBRATION"] = "off"
    out = subprocess.run([str(BUILD / "tests/errors/error_messages")], env=clean, text=True, timeout=120, check=True,
                         stdout=subprocess.PIPE).stdout
    for line in out.splitlines():
        name, _, text = line.partition("\t")
        found[name] = in_order(cleaned(text))
    with tempfile.TemporaryDirectory() as folder:
        for name, variables in ENVIRONMENT.items():
            done = subprocess.run([EXAMPLE], env=clean | variables, text=True, timeout=60, cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            lines = [line for line in done.stderr.splitlines() if "[TUTTI-" in line]
            found[name] = cleaned(lines[-1]) if lines else f"no error: {done.stdout}{done.stderr}"
    return found


def read_golden():
    """Name to (message, {part: words})."""
    blocks, name = {}, None
    for line in GOLDEN.read_text().splitlines() if GOLDEN.exists() else []:
        if line.startswith("== "):
            name = line[3:]
            blocks[name] = ["", {}]
        elif name and line.startswith("  ") and line.strip().partition(": ")[0] in PARTS:
            part, _, words = line.strip().partition(": ")
            blocks[name][1][part] = words
        elif name and line and not line.startswith("#"):
            blocks[name][0] = line
    return blocks


def write_golden(found, blocks):
    text = HEAD
    for name, message in found.items():
        parts = blocks.get(name, ["", {}])[1]
        text += f"\n== {name}\n{message}\n" + "".join(f"  {p}: {parts[p]}\n" for p in PARTS if p in parts)
    GOLDEN.write_text(text)


def explanations():
    """Code to its explanation, all fields of which are there."""
    page = subprocess.run([INFO, "--explain", "all"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = dict(re.findall(r"^TUTTI-(\d{4}) (\(.*?)(?=^TUTTI-|\Z)", page, re.M | re.S))
    for code, row in rows.items():
        for field in ("what", "causes", "remedy"):
            assert re.search(rf"^  {field}: +\S", row, re.M), f"TUTTI-{code} has no {field}"
    return rows


def codes():
    """Number to name, of the tables."""
    return {number: name for path in sorted((SOURCE / "src/base/errors").glob("*.def"))
            for number, name in re.findall(r"^TUTTI_ERROR\(\s*(\d+), (\w+),", path.read_text(), re.M)}


def kept_codes():
    return dict(line.split() for line in CODES.read_text().splitlines()) if CODES.exists() else {}


def changed_codes():
    """What is wrong with the codes as such: a number stands for one kind of error for ever."""
    now, kept = codes(), kept_codes()
    for number, name in kept.items():
        if now.get(number) != name:
            yield f"TUTTI-{number} was {name} and is {now.get(number, 'gone')}: numbers keep their meaning; take a new one"
    for number in sorted(now.keys() - kept.keys()):
        yield f"TUTTI-{number} is new: --update keeps it for ever"


def wrong_with(name, message, parts, explained):
    code = re.search(r" \[TUTTI-(\d{4})\]$", message)
    if not code:
        return "does not end with a code"
    if message.count("TUTTI-") > 1:
        return "has more than one code"
    if code[1] not in explained:
        return f"tutti-info does not explain TUTTI-{code[1]}"
    if code[1].endswith("000"):
        return "has the code of any error of its result"
    needs = {"object", "reason", "remedy"} | ({"rank"} if "/" in name or code[1][0] in "68" else set())
    if missing := needs - set(parts):
        return f"nothing says which words are its {', '.join(sorted(missing))}"
    for part, words in parts.items():
        if words not in message:
            return f"does not have the {part} '{words}'"
    return ""


def main():
    found, blocks = messages(), read_golden()
    if "--update" in sys.argv:
        CODES.write_text("".join(f"{number} {name}\n" for number, name in sorted((codes() | kept_codes()).items())))
        return write_golden(found, blocks)
    explained, problems = explanations(), list(changed_codes())
    if explained.keys() != codes().keys():
        problems.append(f"tutti-info explains others than the tables have: {sorted(explained.keys() ^ codes().keys())}")
    if len(found) < FEWEST:
        problems.append(f"{len(found)} messages, fewer than {FEWEST}")
    if has_cuda_driver():
        found["cuda-without-driver"] = blocks["cuda-without-driver"][0]  # not to be seen here
    for name in sorted(found.keys() | blocks.keys()):
        message, parts = blocks.get(name, ["", {}])
        if found.get(name) != message:
            problems.append(f"{name}:\n  now    {found.get(name)}\n  golden {message}")
        elif why := wrong_with(name, message, parts, explained):
            problems.append(f"{name}: {why}\n  {message}")
    print(*problems, sep="\n")
    if problems:
        print("if the new messages are better: tests/errors/errors_test.py SOURCE BUILD --update, and name their parts")
    print(f"{len(found)} messages, {len({re.search(r'TUTTI-....|$', m)[0] for m in found.values()})} codes")
    return len(problems) > 0


sys.exit(main())
