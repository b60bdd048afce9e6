#!/usr/bin/env python3
"""NCCL's variables do in Tutti what docs/nccl-drop-in.md says, and the log has the lines that people look for.
usage: environment_test.py ENVIRONMENT_CLIENT LIBRARY DOCUMENT"""
import ctypes
import os
import random
import re
import socket
import subprocess
import sys
import tempfile

HOST = socket.gethostname().split(".")[0]
LINE = rf"^{re.escape(HOST)}:\d+:\d+ \[-?\d+\] NCCL INFO "


def run(client, variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "TUTTI_"))}
    environment |= {"TUTTI_DEVICE": "host", "TUTTI_CALIBRATION": "off", "TUTTI_TIMEOUT_MS": "20000", "HOME": "/nonexistent"}
    environment |= variables
    try:
        done = subprocess.run([client], capture_output=True, text=True, timeout=60, env=environment)
    except subprocess.TimeoutExpired as late:
        return "late", f"{late.stdout}\n{late.stderr}"
    return done.returncode, done.stdout + done.stderr


# Variables; whether it works; what the output has; what it has not.
CASES = [
    ({}, True, [], ["NCCL INFO", "NCCL WARN", "NCCL version"]),
    ({"NCCL_DEBUG": "VERSION"}, True, [r"^NCCL version 2\.28\.9\+tutti"], ["NCCL INFO"]),
    ({"NCCL_DEBUG": "INFO"}, True,
     [LINE + r"NCCL version 2\.28\.9\+tutti", LINE + r"NCCL_DEBUG set by environment to INFO\.",
      LINE + r"ncclCommInitRank comm 0x[0-9a-f]+ rank 1 nranks 2 cudaDev -1 nvmlDev -1 busId 0 commId 0x[0-9a-f]+ - "
      r"Init COMPLETE$", LINE + r"ncclCommInitRank rank 1 nranks 2 cudaDev -1 nvmlDev -1 busId 0 commId 0x[0-9a-f]+ - "
      r"Init START$", LINE + r"comm 0x[0-9a-f]+ - Destroy COMPLETE$"], ["opCount"]),
    ({"NCCL_DEBUG": "info", "NCCL_DEBUG_SUBSYS": "COLL"}, True,
     [LINE + r"AllReduce: opCount 0 sendbuff 0x.* count 50000 datatype 7 op 0 root 0 comm 0x[0-9a-f]+ "
      r"\[nranks=2\] stream \S+$"], ["Init COMPLETE"]),
    ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "^INIT"}, True, ["opCount"], ["Init COMPLETE"]),
    ({"NCCL_DEBUG": "INFO", "NCCL_CROSS_NIC": "1"}, True, ["NCCL_CROSS_NIC set by environment to 1: Tutti has nothing"], []),
    ({"NCCL_ALGO": "Ring", "TUTTI_EXPLAIN": "1"}, True, [r"ring, \w+, 1 channel"], []),
    ({"NCCL_ALGO": "allreduce:tree;broadcast:ring", "TUTTI_EXPLAIN": "1"}, True, [r"tree, \w+, 1 channel"], []),
    ({"NCCL_ALGO": "^ring,nvls,nvlstree,collnetdirect,collnetchain", "TUTTI_EXPLAIN": "1"}, True,
     [r"tree, \w+, 1 channel"], []),
    ({"NCCL_ALGO": "ring", "TUTTI_ALGO": "allreduce:tree", "TUTTI_EXPLAIN": "1"}, True, [r"tree, \w+, 1 channel"], []),
    ({"NCCL_ALGO": "Ring,Tree", "NCCL_DEBUG": "WARN"}, True, ["NCCL WARN NCCL_ALGO leaves allreduce several"], []),
    ({"NCCL_ALGO": "NVLS"}, False, ["NCCL_ALGO allows allreduce only algorithms that Tutti does not have"], []),
    ({"NCCL_ALGO": "fastest"}, False, ["NCCL_ALGO: there is no 'fastest'"], []),
    ({"NCCL_ALGO": "allreduce:pat"}, False, ["NCCL_ALGO leaves allreduce no algorithm"], []),
    ({"NCCL_PROTO": "Simple", "TUTTI_EXPLAIN": "1"}, True, [r", slots, 1 channel"], []),
    ({"NCCL_PROTO": "^Simple", "NCCL_DEBUG": "WARN"}, True, ["NCCL WARN NCCL_PROTO=.Simple: Tutti sends flags"], []),
    ({"NCCL_PROTO": "^Simple,LL,LL128"}, False, ["NCCL_PROTO=.Simple,LL,LL128 leaves no protocol"], []),
    ({"NCCL_PROTO": "telepathy"}, False, ["NCCL_PROTO: there is no 'telepathy'"], []),
    ({"NCCL_MIN_NCHANNELS": "3", "TUTTI_EXPLAIN": "1"}, True, [r", 3 channels"], []),
    ({"NCCL_MIN_CTAS": "3", "NCCL_MAX_CTAS": "2"}, False, ["NCCL_MIN_CTAS=3 is more than NCCL_MAX_CTAS=2"], []),
    ({"NCCL_MAX_CTAS": "none"}, False, ["NCCL_MAX_CTAS=none is not a whole number"], []),
    ({"NCCL_BUFFSIZE": "1048576"}, True, [], []),
    ({"NCCL_BUFFSIZE": "12"}, False, ["NCCL_BUFFSIZE=12 is not a number of bytes"], []),
    ({"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1", "TUTTI_EXPLAIN": "1"}, True,
     ["tcp"], []),
    ({"NCCL_SHM_DISABLE": "1", "TUTTI_TRANSPORTS": "self,shm"}, True, [], []),
    ({"NCCL_SHM_DISABLE": "yes"}, False, ["NCCL_SHM_DISABLE=yes"], []),
    ({"NCCL_NET": "Socket"}, True, [], []),
    ({"NCCL_NET": "carrier-pigeon"}, False, ["carrier-pigeon"], []),
    ({"NCCL_NET_PLUGIN": "none", "NCCL_DEBUG": "WARN"}, True, [], ["NCCL WARN"]),
    ({"NCCL_NET_PLUGIN": "aws", "NCCL_DEBUG": "WARN"}, True, ["NCCL WARN NCCL_NET_PLUGIN=aws is not loaded"], []),
    ({"NCCL_SOCKET_IFNAME": "=lo"}, True, [], []),
    ({"NCCL_SOCKET_IFNAME": "=nosuch0"}, False, ["nosuch0"], []),
    ({"NCCL_SOCKET_FAMILY": "AF_INET"}, True, [], []),
    ({"NCCL_SOCKET_FAMILY": "AF_UNIX"}, False, ["NCCL_SOCKET_FAMILY=AF_UNIX"], []),
    ({"NCCL_HOSTID": "here"}, True, [], []),
    ({"NCCL_TOPO_FILE": "/nonexistent/topology.xml"}, False, ["/nonexistent/topology.xml"], []),
    ({"NCCL_COMM_BLOCKING": "0", "NCCL_DEBUG": "INFO"}, True, ["Init COMPLETE"], []),
    ({"NCCL_COMM_BLOCKING": "2"}, False, ["NCCL_COMM_BLOCKING=2"], []),
    ({"NCCL_COMM_ID": "localhost"}, False, ["'localhost' is not host:port"], []),
    ({"NCCL_DEBUG": "LOUD", "TUTTI_DEVICE": "host"}, True, [], ["NCCL INFO"]),
]


def check_cases(client, complain):
    for variables, works, has, has_not in CASES:
        status, output = run(client, variables)
        if (status == 0) != works:
            complain(f"{variables}: exit status {status}\n{output}")
            continue
        for pattern in has:
            if not re.search(pattern, output, re.M):
                complain(f"{variables}: no line matches {pattern}\n{output}")
        for text in has_not:
            if text in output:
                complain(f"{variables}: there is a line with {text}\n{output}")


def check_files(client, complain):
    with tempfile.TemporaryDirectory() as folder:
        status, output = run(client, {"NCCL_TOPO_DUMP_FILE": folder + "/topo.xml", "NCCL_DEBUG": "INFO",
                                      "NCCL_DEBUG_FILE": folder + "/log.%h.%p"})
        logs = [name for name in os.listdir(folder) if name.startswith(f"log.{HOST}.")]
        if status != 0 or len(logs) != 2 or "Init COMPLETE" in output:
            complain(f"NCCL_DEBUG_FILE: {logs}\n{output}")
        elif not all("Init COMPLETE" in open(f"{folder}/{name}", encoding="utf-8").read() for name in logs):
            complain("NCCL_DEBUG_FILE: the log is not in the file")
        if "<system" not in open(folder + "/topo.xml", encoding="utf-8").read():
            complain("NCCL_TOPO_DUMP_FILE: no topology")
        with open(folder + "/nccl.conf", "w", encoding="utf-8") as file:
            file.write("# a comment\n NCCL_DEBUG = VERSION # another\nNCCL_ALGO=fastest\n")
        status, output = run(client, {"NCCL_CONF_FILE": folder + "/nccl.conf", "NCCL_ALGO": "ring"})
        if status != 0 or "NCCL version" not in output:
            complain(f"NCCL_CONF_FILE\n{output}")


def check_comm_id(client, complain):
    for _ in range(5):  # another program may have the port
        port = random.randrange(10_000, 30_000)  # not one that the system gives to who asks for any
        status, output = run(client, {"NCCL_COMM_ID": f"127.0.0.1:{port}"})
        if "Address already in use" not in output:
            break
    if status != 0:
        complain(f"NCCL_COMM_ID\n{output}")


def check_parameters(library, document, complain):
    """Every variable is in the document, with what it does; the document has no others."""
    os.environ["NCCL_BUFFSIZE"] = "65536"
    nccl = ctypes.CDLL(library)
    keys, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_int()
    assert nccl.ncclParamGetAllParameterKeys(ctypes.byref(keys), ctypes.byref(count)) == 0
    names = [keys[i].decode() for i in range(count.value)]
    handle, number, text = ctypes.c_void_p(), ctypes.c_int32(), ctypes.c_char_p()
    assert nccl.ncclParamBind(ctypes.byref(handle), b"NCCL_BUFFSIZE") == 0
    assert nccl.ncclParamGetI32(handle, ctypes.byref(number)) == 0 and number.value == 65536
    assert nccl.ncclParamGetStr(handle, ctypes.byref(text)) == 0 and text.value == b"65536"
    assert nccl.ncclParamGetI8(handle, ctypes.byref(ctypes.c_int8())) == 4
    assert nccl.ncclParamBind(ctypes.byref(handle), b"NCCL_COLOUR") == 4
    program = f"import ctypes; ctypes.CDLL({library!r}).ncclParamDumpAll()"
    dump = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    rows = dict(re.findall(r"^\| `(NCCL_\w+)` \| (.*) \|$", open(document, encoding="utf-8").read(), re.M))
    for name, becomes in re.findall(r"^(NCCL_\w+)=.*?  # (.*)$", dump, re.M):
        if rows.pop(name, None) != becomes:
            complain(f"{document} lacks the row\n| `{name}` | {becomes} |")
        names.remove(name)
    if rows or names:
        complain(f"{document}: rows for what there is not: {sorted(rows)}; not dumped: {names}")


def main():
    client, library, document = sys.argv[1:]
    complaints = []
    check_cases(client, complaints.append)
    check_files(client, complaints.append)
    check_comm_id(client, complaints.append)
    check_parameters(library, document, complaints.append)
    print("\n".join(complaints))
    print(f"{len(CASES)} sets of variables, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
