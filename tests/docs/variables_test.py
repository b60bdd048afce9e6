#!/usr/bin/env python3
"""Every variable that a document names is one, and something reads it: a row below sets it and sees what it does.
usage: variables_test.py SOURCE BUILD FAKE_CUDA_FOLDER

A variable that documents name and no table has fails the test, and so does one that no row sets."""
import atexit
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD, FAKE_CUDA = (pathlib.Path(path) for path in sys.argv[1:4])
RUN, INFO = str(BUILD / "tools/tutti-run"), str(BUILD / "tools/tutti-info")
EXAMPLE = str(BUILD / "examples/example_allreduce")
JOB = [RUN, "-n", "2", "--no-tag", EXAMPLE]


def perf(name, ranks, *more):
    return [str(BUILD / f"perf/{name}_perf"), "-t", str(ranks), "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", *more]


def by_rank(script):
    """Two ranks, started with torchrun's variables, each by `script`, which ends with the program."""
    port = random.randrange(20_000, 30_000)
    return ["sh", "-c", f'for RANK in 0 1; do export RANK WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}; '
            f'({script}; exec {EXAMPLE}) & done; wait']


def preloaded(script):
    """Python with libtutti_malloc.so, which has 64 MiB of it."""
    given = ("import re; maps = lambda: open('/proc/self/maps').read(); b = bytearray(b'x' * (64 << 20)); "
             "shared = lambda: int(re.search('RssShmem: *(.*) kB', open('/proc/self/status').read())[1]); ")
    return ["env", f"LD_PRELOAD={BUILD}/packaging/libtutti_malloc.so", sys.executable, "-c", given + script]


CUDA = {"LD_LIBRARY_PATH": str(FAKE_CUDA), "TUTTI_LOG": "info", "TUTTI_DEVICE": "cuda"}
EXPLAIN, INFORM, DEBUG = {"TUTTI_EXPLAIN": "1"}, {"TUTTI_LOG": "info"}, {"TUTTI_LOG": "debug"}
PLUGIN = {"TUTTI_NET_PLUGIN": str(BUILD / "tests/support/net_plugin/libnccl-net-test11.so")}
OWN_NET = str(BUILD / "packaging/libnccl-net-tutti.so")
PROFILER = str(BUILD / "tests/support/profiler_plugin/libnccl-profiler-test6.so")
TUNER = str(BUILD / "tests/support/tuner_plugin/libnccl-tuner-test6.so")
PYTHON = [sys.executable, "-c", "import tutti; comm = tutti.Communicator.from_env(); print(comm.rank + 1, 'of', comm.size)"]
TCP = {"TUTTI_TRANSPORTS": "self,tcp"}
RECORDS = tempfile.mkdtemp(prefix="tutti-records-")
atexit.register(shutil.rmtree, RECORDS)
ALONE = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "TUTTI_TIMEOUT_MS": "300"}


class Shows:
    """With the value, beside what `also` sets, the output matches; without it, it does not."""

    def __init__(self, value, pattern, command=None, also=None, contrast=True):
        self.value, self.pattern, self.contrast = value, pattern, contrast
        self.command, self.also = command or JOB, also or {}

    def check(self, name):
        with tempfile.TemporaryDirectory() as folder:
            value = self.value.replace("FOLDER", folder)
            pattern = self.pattern.replace("FOLDER", folder)
            found = run(self.command, self.also | {name: value})[1]
            if not re.search(pattern, found, re.M):
                return f"with {value!r} nothing matches {pattern}:\n{found}"
            found = run(self.command, self.also)[1] if self.contrast else ""
            return f"without it there is {pattern} too:\n{found}" if re.search(pattern, found, re.M) else ""


class Hides(Shows):
    """The other way round."""

    def check(self, name):
        with_it, without = (run(self.command, self.also | more)[1] for more in ({name: self.value}, {}))
        if re.search(self.pattern, with_it, re.M) or not re.search(self.pattern, without, re.M):
            return f"{self.pattern} with it:\n{with_it}\nand without it:\n{without}"
        return ""


class Refused:
    """The value is an error that names the variable and says this."""

    def __init__(self, value, says, command=None, also=None):
        self.value, self.says, self.command, self.also = value, says, command or JOB, also or {}

    def check(self, name):
        status, output = run(self.command, self.also | {name: self.value})
        if status == 0 or name not in output or self.says not in output:
            return f"with {self.value!r}: exit status {status}, no '{self.says}':\n{output}"
        return ""


class Writes:
    """A file comes into being under the name that the variable gives."""

    def __init__(self, command=None, also=None):
        self.command, self.also = command or JOB, also or {}

    def check(self, name):
        with tempfile.TemporaryDirectory() as folder:
            status, output = run(self.command, self.also | {name: folder + "/file"})
            return "" if os.path.getsize(folder + "/file") > 0 else f"exit status {status}, no file:\n{output}"


ROWS = {
    "TUTTI_ALGO": [Shows("allreduce:tree", r" tree/\w+/\d+$", perf("all_reduce", 3)), Refused("rng", "'rng' (did you mean ring?); there are")],
    "TUTTI_ALGO_STRICT": [Shows("1", "does not serve .*; these would: ", also={"TUTTI_ALGO": "allreduce:hierarchical"}), Refused("2", "neither 0 nor 1")],
    "TUTTI_PROTO": [Shows("slots", r"/slots/\d+$", perf("all_reduce", 2, "-b", "8", "-e", "8")),
                    Refused("telepathy", "inline, slots and direct")],
    "TUTTI_JOIN": [Hides("0", "chunks joined", also=EXPLAIN), Refused("maybe", "set 0")],
    # What is found, and when, tests/unit/comm sees: here the ways may be as fast as each other.
    "TUTTI_LEARN": [Hides("0", "calls that are made often try several ways of the same bits", also=DEBUG), Refused("3", "outside 0..2")],
    "TUTTI_TRANSPORTS": [Shows("self,tcp", r"\(tcp-local\)", also=EXPLAIN), Refused("self,pigeon", "known are")],
    "TUTTI_DEVICE": [Shows("cuda", "calls of CUDA ranks are carried out by", also=CUDA | {"TUTTI_DEVICE": ""}),
                     Refused("toaster", "auto, host or cuda")],
    "TUTTI_CUDA_EXECUTOR": [Shows("proxy", "carried out by proxies", also=CUDA), Refused("nobody", "stream or proxy")],
    "TUTTI_NCHANNELS": [Shows("3", r" \w+/\w+/3$", perf("all_reduce", 2)), Refused("65", "outside 0..64")],
    "TUTTI_TIMEOUT_MS": [Shows("300", "got no answer from the rendezvous", [EXAMPLE], ALONE, contrast=False),
                         Refused("-1", "outside")],
    "TUTTI_REPRODUCIBLE": [Shows("1", "operands in rank order", also=EXPLAIN), Refused("2", "neither 0 nor 1")],
    "TUTTI_SLOT_BYTES": [Shows("2K", "slots of 2048 bytes", also=DEBUG),
                         Shows("2K", "messages of at most 2048 bytes", also=DEBUG | TCP), Refused("1", "outside")],
    "TUTTI_SLOTS": [Shows("7", "rank 0: 7 slots of", also=DEBUG), Refused("1", "outside 2..64")],
    "TUTTI_SOCKET_IFNAME": [Refused("=nosuch0", "no network interface matches")],
    "TUTTI_SOCKET_FAMILY": [Refused("ipx", "neither inet nor inet6")],
    "TUTTI_NSOCKETS": [Shows("3", "3 sockets to a peer", also=DEBUG | TCP), Refused("17", "outside 1..16")],
    "TUTTI_RECONNECT": [Shows("all", "are made again: all", also=DEBUG | TCP), Refused("maybe", "none of: none, hosts, all", also=TCP)],
    "TUTTI_RECONNECT_MS": [Shows("1234", "within 1234 ms", also=DEBUG | TCP), Refused("-1", "outside 0..")],
    "TUTTI_HOST_GONE_MS": [Shows("4000", "answers nothing for 4000 ms is gone", also=DEBUG), Refused("10", "outside 1000..")],
    "TUTTI_RECONNECT_BYTES": [Shows("1M", "from 1048576 bytes", also=DEBUG | TCP), Refused("1K", "outside 262144..")],
    "TUTTI_ENCRYPT": [Shows("1", "bytes are under TUTTI_ENCRYPT=1", also=DEBUG | TCP), Refused("2", "neither 0 nor 1")],
    "TUTTI_INTEGRITY": [Shows("mac", "bytes are under TUTTI_INTEGRITY=mac", also=DEBUG | TCP), Refused("sha", "none of: crc, mac", also=TCP)],
    "TUTTI_CHECK_RESULTS": [Shows("3", "of 3 calls whose results are the same on all ranks one is compared", also=DEBUG), Refused("-1", "outside 0..")],
    "TUTTI_RETRY": [Shows("1", "collectives finish on all ranks that go on, or on none", also=DEBUG), Refused("2", "neither 0 nor 1")],
    "TUTTI_TCP_CONGESTION": [Shows("reno", "between hosts: congestion control reno", also=DEBUG | TCP),
                             Refused("pigeon", "no tcp congestion control 'pigeon'; it has: ", also=TCP)],
    "TUTTI_TCP_BUSY_POLL_US": [*([Shows("50", "busy poll 50 us", also=DEBUG | TCP)] if os.geteuid() == 0 else []),
                               Refused("-1", "outside 0..")],
    "TUTTI_IB_HCA": [Shows("=mlx5_1:1", "ports '=mlx5_1:1'", also=DEBUG)],
    "TUTTI_IB_RAILS": [Shows("2", "rails 2,", also=DEBUG), Refused("5", "outside 1..4")],
    "TUTTI_IB_QPS_PER_CONNECTION": [Shows("4", "queue pairs 4,", also=DEBUG), Refused("17", "outside 1..16")],
    "TUTTI_IB_SPLIT_DATA_ON_QPS": [Shows("1", "split 1,", also=DEBUG), Refused("2", "neither 0 nor 1")],
    "TUTTI_IB_ADDR_FAMILY": [Shows("AF_INET6", "address family 'AF_INET6'", also=DEBUG), Refused("AF_UNIX", "neither AF_INET")],
    "TUTTI_IB_ADDR_RANGE": [Shows("10.0.0.0/8", "address range '10.0.0.0/8'", also=DEBUG), Refused("10.0/8", "no range of addresses")],
    "TUTTI_IB_ROCE_VERSION_NUM": [Shows("1", "RoCE version 1,", also=DEBUG), Refused("3", "outside 0..2")],
    "TUTTI_IB_PKEY": [Shows("1", "partition 1,", also=DEBUG), Refused("-1", "outside 0..65535")],
    "TUTTI_IB_PCI_RELAXED_ORDERING": [Shows("0", "relaxed ordering 0,", also=DEBUG), Refused("3", "outside 0..2")],
    "TUTTI_IB_ADAPTIVE_ROUTING": [Shows("1", "adaptive routing 1 ", also=DEBUG), Refused("2", "outside -1..1")],
    "TUTTI_IB_AR_THRESHOLD": [Shows("16K", "above 16384 bytes", also=DEBUG), Refused("lots", "is not a size")],
    "TUTTI_NET_GDR_LEVEL": [Shows("PHB", "memory of devices up to PHB", also=DEBUG), Refused("NVL", "none of: LOC, PIX, PXB, PHB, SYS")],
    "TUTTI_IB_GID_INDEX": [Shows("3", "GID index 3,", also=DEBUG), Refused("256", "outside -1..255")],
    "TUTTI_IB_TC": [Shows("106", "traffic class 106,", also=DEBUG), Refused("256", "outside 0..255")],
    "TUTTI_IB_SL": [Shows("3", "service level 3,", also=DEBUG), Refused("16", "outside 0..15")],
    "TUTTI_IB_TIMEOUT": [Shows("20", "timeout 20,", also=DEBUG), Refused("0", "outside 1..31")],
    "TUTTI_IB_RETRY_CNT": [Shows("5", " 5 retries,", also=DEBUG), Refused("8", "outside 0..7")],
    "TUTTI_IB_MTU": [Shows("1024", " MTU 1024", also=DEBUG), Refused("1000", "is not 0, 256, 512")],
    "TUTTI_NET_PLUGIN": [Shows(PLUGIN["TUTTI_NET_PLUGIN"], "Sockets for tests v11, device net0", also=INFORM),
                         Shows("nosuch", "libnccl-net-nosuch.so", also=INFORM)],
    "TUTTI_NET_PLUGIN_DEVICE": [Shows("net1", "v11, device net1", also=INFORM | PLUGIN),
                                Shows("net7", "=net7 allows .* it has 0 gpu0, 1 net0, 2 net1", also=PLUGIN)],
    "TUTTI_PLUGIN_TRANSPORT": [Shows("pigeon", "='pigeon' is neither verbs nor tcp", also={"TUTTI_NET_PLUGIN": OWN_NET}),
                               Shows("tcp", "plugin Tutti v12, device tutti-tcp", also=INFORM | {"TUTTI_NET_PLUGIN": OWN_NET},
                                     contrast=False)],
    "TUTTI_PROFILER_PLUGIN": [Shows(PROFILER, "plugin Events for tests follows events", also=INFORM),
                              Refused("nosuch", "libnccl-profiler-nosuch.so")],
    "TUTTI_TUNER_PLUGIN": [Shows(TUNER, "Lines for tests wants of allreduce", also=INFORM),
                           Refused("nosuch", "libnccl-tuner-nosuch.so")],
    "TUTTI_CMA": [Shows("0", "peers' memory is read nowhere", also=DEBUG), Refused("no", "neither 0 nor 1")],
    "TUTTI_ADOPT": [Shows("0", "not mapped by peers: TUTTI_ADOPT is 0", [RUN, "-n", "2", "--no-tag", *perf("all_reduce", 1, "--adopt")],
                          INFORM), Refused("no", "neither 0 nor 1")],
    "TUTTI_MALLOC_LEAST": [Shows("1G", "^0 arenas", preloaded("print(maps().count('memfd:tutti'), 'arenas')")),
                           Refused("many", "is not a size")],
    "TUTTI_MALLOC_KEEP": [Shows("0", "^shared [0-9]{1,4} kB", preloaded("b = None; print('shared', shared(), 'kB')")),
                          Refused("all", "is not a size")],
    "TUTTI_LOG": [Shows("info", "info topology: the ranks are in 1 host"), Refused("loud", "error, warn, info")],
    "TUTTI_EXPLAIN": [Shows("1", "^plan allreduce 4 on 2 ranks"), Refused("why", "neither 0 nor 1")],
    "TUTTI_PLAN_DIR": [Refused("/nonexistent/plans", "cannot read the folder of plans")],
    "TUTTI_CALIBRATION": [Writes()],
    "TUTTI_TOPO_FILE": [Refused("/nonexistent", "cannot read"), Shows("node:1 l3:2 wings:2", "wings")],
    "TUTTI_TOPO_CPUS": [Shows("0/2", "2 sockets", also=INFORM | {"TUTTI_TOPO_FILE": "package:2 core:2"}),
                        Refused("0/many", "many")],
    "TUTTI_TOPO_DUMP_FILE": [Writes()],
    "TUTTI_GRAPH_FILE": [Shows("FOLDER/missing.xml", "FOLDER/missing.xml", [INFO, "--topology", "gpu:4", "--rings"])],
    "TUTTI_GRAPH_DUMP_FILE": [Writes([INFO, "--topology", "gpu:4 nvlink:6x25", "--rings"])],
    "TUTTI_TRACE": [Writes(), Refused("/tmp/rank%r", "has no %c"), Refused("/dev/null/x", "cannot make the folder")],
    "TUTTI_RECORD_CALLS": [Shows("2", "has the newest 2 of [0-9]+ calls", perf("all_reduce", 2), {"TUTTI_TRACE": RECORDS}),
                           Refused("-1", "outside 0..")],
    "TUTTI_DUMP": [Writes(), Refused("/dev/null/x", "cannot make the folder")],
    "TUTTI_DUMP_SIGNAL": [Refused("KILL", "none of HUP, QUIT, USR1")],
    "TUTTI_MONITOR": [Hides("0", "tutti-top will not see this process", also=INFORM | {"XDG_RUNTIME_DIR": "/dev/null"}),
                      Refused("yes", "neither 0 nor 1")],
    "TUTTI_WIRE": [Shows("bf16", ", bf16 between hosts", [RUN, "-n", "2", "--no-tag", "sh", "-c", 'TUTTI_HOSTID=host$TUTTI_RANK exec "$@"',
                                                                  "-", *perf("all_reduce", 1)], EXPLAIN), Refused("fp16", "bf16, fp8 or int8")],
    "TUTTI_WAIT": [Shows("block", "waits block, spin -1 us", also=DEBUG), Refused("nap", "spin, yield or block")],
    "TUTTI_SPIN_US": [Shows("7", "waits auto, spin 7 us", also=DEBUG), Refused("-2", "outside -1..")],
    "TUTTI_SLICE_US": [Shows("70", "slices of 70 us", also=DEBUG), Refused("100001", "outside")],
    "TUTTI_PORT": [Shows("7", "rendezvous at 127.0.0.1:7 ", [EXAMPLE], ALONE), Refused("65536", "outside 0..65535")],
    "TUTTI_SECRET": [Shows("word", "rank 1 has another secret than the rendezvous",
                           by_rank('[ -z "$TUTTI_SECRET" ] || export TUTTI_SECRET=$RANK'),
                           {"TUTTI_TIMEOUT_MS": "8000"})],
    "TUTTI_UNIQUE_ID": [Refused("zz", "hexadecimal digits", [EXAMPLE], {"TUTTI_RANK": "0", "TUTTI_NRANKS": "2"})],
    "TUTTI_RANK": [Refused("2", "not below", [EXAMPLE], {"TUTTI_NRANKS": "2", "TUTTI_UNIQUE_ID": "0"})],
    "TUTTI_NRANKS": [Refused("-7", "outside", [EXAMPLE])],
    "TUTTI_LOCAL_RANK": [Shows("7", "^local 1$", [RUN, "-n", "2", "--no-tag", "sh", "-c", "echo local $TUTTI_LOCAL_RANK"],
                               contrast=False), Refused("x", "whole number", [EXAMPLE])],
    "TUTTI_TERMINAL": [Shows("1", "^terminal 0$", [RUN, "-n", "2", "--no-tag", "sh", "-c", "echo terminal $TUTTI_TERMINAL"],
                             contrast=False), Refused("2", "neither 0 nor 1", [EXAMPLE])],
    "TUTTI_HOME": [Shows(str(BUILD), "^1 of 1$", PYTHON, also={"PYTHONPATH": str(SOURCE / "packaging/python")}, contrast=False),
                   Refused("/nowhere", "/nowhere has no libtutti", PYTHON, also={"PYTHONPATH": str(SOURCE / "packaging/python")})],
    # What the links carry, a busy machine cannot tell; that it was asked, it can.
    "TUTTI_LINK_PROBE": [Refused("sometimes", "none of: auto, off, always"),
                         Shows("always", "links between hosts take|no link between hosts could be measured", also=INFORM | TCP,
                               command=by_rank("export TUTTI_HOSTID=host$RANK"))],
    "TUTTI_HOSTID": [Shows("own", "the ranks are in 2 hosts", also=INFORM,
                           command=by_rank('[ -z "$TUTTI_HOSTID" ] || export TUTTI_HOSTID=host$RANK'))],
    # Of the benchmark programs.
    "TUTTI_TESTS_MIN_BW": [Shows("100000", "FAILED", perf("all_reduce", 2)), Refused("much", "GB/s", perf("all_reduce", 2))],
    "TUTTI_TESTS_SPLIT": [Shows("MOD 2", "Group  1 ", perf("all_reduce", 4)), Refused("MAD 2", "AND", perf("all_reduce", 2))],
    "TUTTI_TESTS_SPLIT_MASK": [Shows("1", "Group  1 ", perf("all_reduce", 4)), Refused("q", "hex", perf("all_reduce", 2))],
    "TUTTI_TESTS_ALLTOALLV_SPREAD": [Shows("0", r"^ +65536 ", perf("alltoallv", 2)), Refused("2", "0 to 1", perf("alltoallv", 2))],
    "TUTTI_TESTS_ALLTOALLV_MATRIX_FILE": [Refused("/nonexistent/m", "that can be read", perf("alltoallv", 2)),
                                          Shows("/dev/null", "cannot be read", perf("alltoallv", 2))],
    "TUTTI_TESTS_ALLTOALLV_MATRIX_SCALE": [Refused("x", "a number", perf("alltoallv", 2))],
}
# Beginnings of names.
PREFIXES = {"TUTTI_", "TUTTI_TESTS_", "TUTTI_PARAMETER_"}
# Of the tests, which read it themselves.
OF_TESTS = {"TUTTI_TEST_SEED": "tests/support/seeds.hpp"}


def run(command, variables):
    mine = ("TUTTI_", "NCCL_", "PMI", "OMPI_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "MASTER_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    environment |= {"TUTTI_CALIBRATION": "off"} | variables
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, env=environment)
    return done.returncode, done.stdout


def names_in(paths):
    """Names of variables in texts, by where they are."""
    found = {}
    for path in paths:
        for name in re.findall(r"\bTUTTI_[A-Z0-9_]*", path.read_text(encoding="utf-8")):
            found.setdefault(name, path.relative_to(SOURCE))
    return found


def names_of_c(headers):
    """What headers define, or ask whether it is defined: macros and enumerators."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in headers)
    macros = re.findall(r"(?:# *(?:define|ifn?def) +|defined\()(TUTTI_\w+)", text)
    return set(macros + re.findall(r"\b(TUTTI_\w+)(?= *[=,}]|\n\})", text))


def main():
    complaints = []
    table = set(re.findall(r"^\| `(TUTTI_\w+)`", subprocess.run([INFO, "--config", "--markdown"], capture_output=True,
                                                                 text=True, check=True).stdout, re.M))
    unknown = run(perf("all_reduce", 1), {"TUTTI_TESTS_NONE": "1"})[1]
    table |= {"TUTTI_TESTS_" + name for name in re.findall(r"\b[A-Z_]{4,}\b", unknown.split("there are", 1)[1])}
    headers = list((SOURCE / "include").rglob("*.h"))
    documents = [*(SOURCE / "docs").rglob("*.md"), *SOURCE.glob("*.md"), *headers,
                 *(path for part in ("src", "transport", "algorithms", "tools", "perf", "packaging", "examples")
                   for path in (SOURCE / part).rglob("README.md"))]
    for name, path in sorted(names_in(documents).items()):
        if name not in table | names_of_c(headers) | PREFIXES | OF_TESTS.keys():
            complaints.append(f"{path} names {name}, which nothing knows")
    for name in sorted(table - ROWS.keys()):
        complaints.append(f"{name} has no row in {os.path.basename(__file__)}: set it and see what it does")
    for name in sorted(ROWS.keys() - table):
        complaints.append(f"{name} has a row and is in no table")
    for name, reader in OF_TESTS.items():
        if f'getenv("{name}")' not in (SOURCE / reader).read_text(encoding="utf-8"):
            complaints.append(f"{reader} does not read {name}")
    without_verbs = "verbs" not in run(JOB, {"TUTTI_TRANSPORTS": "self,pigeon"})[1]  # built without its headers
    for name, checks in ROWS.items():
        for check in checks:
            if without_verbs and name.startswith("TUTTI_IB_"):
                continue
            complaint = check.check(name)
            if complaint:
                complaints.append(f"{name}: {complaint}")
    print("\n".join(complaints) or f"{len(table)} variables are read")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
