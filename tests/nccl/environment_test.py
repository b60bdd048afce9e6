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
    environment |= {"TUTTI_DEVICE": "host", "TUTTI_CALIBRATION": "off", "TUTTI_TIMEOUT_MS": "20000", "HOME": ""}
    environment |= variables
    try:
        done = subprocess.run([client], capture_output=True, text=True, timeout=60, env=environment)
    except subprocess.TimeoutExpired as late:
        return "late", f"{late.stdout}\n{late.stderr}"
    return done.returncode, done.stdout + done.stderr


# Variables; whether it works; what the output has; what it has not.
# Of those for networks.
WITHOUT_COUNTERPART = (
    "NCCL_IB_MERGE_NICS", "NCCL_IB_USE_INLINE", "NCCL_IB_FIFO_TC",
    "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_ECE_ENABLE", "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_OOO_RQ", "NCCL_IB_RESILIENCY_PORT_FAILOVER", "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_DATA_DIRECT", "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C", "NCCL_DMABUF_ENABLE", "NCCL_NET_FORCE_FLUSH",
)

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
    ({"NCCL_ALGO": "NVLS", "NCCL_DEBUG": "WARN"}, True,
     [r"NCCL WARN NCCL_ALGO allows allreduce only algorithms that Tutti does not have \(it has ring, tree\): its planner"],
     []),
    ({"NCCL_ALGO": "allgather:CollnetDirect", "NCCL_DEBUG": "WARN"}, True,
     [r"NCCL WARN NCCL_ALGO allows allgather only .* \(it has ring, pat\)"], ["allreduce only"]),
    ({"NCCL_ALGO": "NVLS", "TUTTI_ALGO_STRICT": "1"}, False,
     ["NCCL_ALGO allows allreduce only algorithms that Tutti does not have"], []),
    ({"NCCL_ALGO": "NVLS,Tree", "TUTTI_EXPLAIN": "1"}, True, [r"tree, \w+, 1 channel"], []),
    ({"NCCL_PROTO": "Simple", "TUTTI_ALGO_STRICT": "1", "TUTTI_EXPLAIN": "1"}, True, [r", slots, 1 channel"], []),
    ({"NCCL_MIN_NCHANNELS": "40", "TUTTI_ALGO_STRICT": "1", "TUTTI_EXPLAIN": "1"}, True, [r", 8 channels"],
     ["does not serve"]),
    ({"NCCL_ALGO": "fastest"}, False, ["NCCL_ALGO: there is no 'fastest'"], []),
    ({"NCCL_ALGO": "Rign"}, False, ["NCCL_ALGO: there is no 'rign'; there are tree, ring, .*, pat$"], []),
    ({"NCCL_ALGO": "allredcue:ring"}, False, ["there is no function 'allredcue'; there are allreduce, allgather, "], []),
    ({"NCCL_ALGO": "allreduce:pat"}, False, ["NCCL_ALGO leaves allreduce no algorithm"], []),
    ({"NCCL_PROTO": "Simple", "TUTTI_EXPLAIN": "1"}, True, [r", slots, 1 channel"], []),
    ({"NCCL_PROTO": "^Simple", "NCCL_DEBUG": "WARN"}, True, ["NCCL WARN NCCL_PROTO=.Simple: Tutti sends flags"], []),
    ({"NCCL_PROTO": "^Simple,LL,LL128"}, False, ["NCCL_PROTO=.Simple,LL,LL128 leaves no protocol"], []),
    ({"NCCL_PROTO": "telepathy"}, False, ["NCCL_PROTO: there is no 'telepathy'; there are ll, ll128, simple"], []),
    ({"NCCL_MIN_NCHANNELS": "3", "TUTTI_EXPLAIN": "1"}, True, [r", 3 channels"], []),
    ({"NCCL_MIN_CTAS": "3", "NCCL_MAX_CTAS": "2"}, False, ["NCCL_MIN_CTAS=3 is more than NCCL_MAX_CTAS=2"], []),
    ({"NCCL_MAX_CTAS": "none"}, False, ["NCCL_MAX_CTAS=none is not a whole number"], []),
    ({"NCCL_MAX_NCHANNELS": "0"}, False, ["NCCL_MAX_NCHANNELS=0 is not a whole number from 1"], []),
    ({"NCCL_BUFFSIZE": "1048576"}, True, [], []),
    ({"NCCL_BUFFSIZE": "12"}, False, ["NCCL_BUFFSIZE=12 is not a number of bytes"], []),
    ({"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1", "TUTTI_EXPLAIN": "1"}, True,
     ["tcp"], []),
    ({"NCCL_SHM_DISABLE": "1", "TUTTI_TRANSPORTS": "self,shm"}, True, [], []),
    ({"NCCL_SHM_DISABLE": "yes"}, False, ["NCCL_SHM_DISABLE=yes"], []),
    ({"NCCL_P2P_DISABLE": "2"}, False, ["NCCL_P2P_DISABLE=2"], []),
    ({"NCCL_IB_DISABLE": "-1"}, False, ["NCCL_IB_DISABLE=-1"], []),
    ({"NCCL_IB_HCA": "mlx5_0", "NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "WARN"}, True,
     [], ["NCCL WARN"]),
    ({"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106", "NCCL_IB_SL": "3",
      "NCCL_IB_TIMEOUT": "20", "NCCL_IB_RETRY_CNT": "5", "TUTTI_LOG": "debug"}, True,
     ["ports '=mlx5_0:1,mlx5_1:1', GID index 3, traffic class 106, service level 3, timeout 20, 5 retries"], []),
    ({"NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_SPLIT_DATA_ON_QPS": "1", "NCCL_IB_ADDR_FAMILY": "AF_INET",
      "NCCL_IB_ADDR_RANGE": "10.0.0.0/8", "NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_PKEY": "1",
      "NCCL_IB_PCI_RELAXED_ORDERING": "0", "NCCL_IB_ADAPTIVE_ROUTING": "1", "NCCL_IB_AR_THRESHOLD": "16384",
      "NCCL_NET_GDR_LEVEL": "3", "TUTTI_LOG": "debug"}, True,
     ["queue pairs 4, split 1, address family 'AF_INET', address range '10.0.0.0/8', RoCE version 2, partition 1, "
      "relaxed ordering 0, adaptive routing 1 above 16384 bytes, memory of devices up to PHB"], []),
    ({"NCCL_NET_GDR_LEVEL": "NVL"}, False, ["NCCL_NET_GDR_LEVEL=NVL stands for TUTTI_NET_GDR_LEVEL=NVL: "], []),
    (dict.fromkeys(WITHOUT_COUNTERPART, "0") | {"NCCL_DEBUG": "INFO"}, True,
     [f"NCCL INFO {name} set by environment to 0: Tutti has nothing like it" for name in WITHOUT_COUNTERPART], []),
    ({"NCCL_IB_QPS_PER_CONNECTION": "64"}, False, ["NCCL_IB_QPS_PER_CONNECTION=64 stands for TUTTI_IB_QPS_PER_CONN"], []),
    ({"NCCL_IB_TIMEOUT": "99"}, False, ["NCCL_IB_TIMEOUT=99 stands for TUTTI_IB_TIMEOUT=99: "], ["SetDefault"]),
    ({"NCCL_COMM_SPLIT_SHARE_RESOURCES": "2"}, False, ["NCCL_COMM_SPLIT_SHARE_RESOURCES=2"], []),
    ({"NCCL_COMM_SHRINK_SHARE_RESOURCES": "2"}, False, ["NCCL_COMM_SHRINK_SHARE_RESOURCES=2"], []),
    ({"NCCL_NET": "Socket"}, True, [], []),
    ({"NCCL_NET": "IB"}, True, [], []),
    ({"NCCL_NET": "carrier-pigeon"}, False, ["NCCL_NET=carrier-pigeon: "], ["netName"]),
    ({"NCCL_NET_PLUGIN": "none", "NCCL_DEBUG": "WARN"}, True, [], ["NCCL WARN"]),
    ({"NCCL_NET": "Rockets", "NCCL_NET_PLUGIN": "none"}, False, ["NCCL_NET=Rockets: "], []),
    ({"NCCL_NET": "Rockets", "NCCL_NET_PLUGIN": "nosuch"}, True, ["ncclnet: not used: .*libnccl-net-nosuch.so"], []),
    ({"NCCL_NET_PLUGIN": "nosuch", "TUTTI_NET_PLUGIN": "none"}, True, [], ["nosuch"]),
    ({"NCCL_PROFILER_PLUGIN": "nosuch"}, False, ["TUTTI_PROFILER_PLUGIN=nosuch: .*libnccl-profiler-nosuch.so"], []),
    ({"NCCL_PROFILER_PLUGIN": "none", "NCCL_TUNER_PLUGIN": "none", "NCCL_DEBUG": "WARN"}, True, [], ["NCCL WARN"]),
    ({"NCCL_TUNER_PLUGIN": "nosuch"}, False, ["TUTTI_TUNER_PLUGIN=nosuch: .*libnccl-tuner-nosuch.so"], []),
    ({"NCCL_SOCKET_IFNAME": "=lo"}, True, [], []),
    ({"NCCL_SOCKET_IFNAME": "=nosuch0"}, False, ["NCCL_SOCKET_IFNAME==nosuch0 stands for TUTTI_SOCKET_IFNAME==nosuch0: no "
      "network interface matches"], ["SetDefault"]),
    ({"NCCL_SOCKET_IFNAME": "=nosuch0", "TUTTI_SOCKET_IFNAME": "=lo"}, True, [], []),
    ({"NCCL_SOCKET_FAMILY": "AF_INET"}, True, [], []),
    ({"NCCL_SOCKET_FAMILY": "AF_UNIX"}, False, ["NCCL_SOCKET_FAMILY=AF_UNIX"], []),
    ({"NCCL_TOPO_FILE": "/nonexistent/topology.xml"}, False,
     ["NCCL_TOPO_FILE=/nonexistent/topology.xml stands for TUTTI_TOPO_FILE=/nonexistent/topology.xml: "], ["SetDefault"]),
    ({"NCCL_COMM_BLOCKING": "0", "NCCL_DEBUG": "INFO"}, True, ["Init COMPLETE"], []),
    ({"NCCL_COMM_BLOCKING": "2"}, False, ["NCCL_COMM_BLOCKING=2"], []),
    ({"NCCL_COMM_ID": "localhost"}, False, ["'localhost' is no address; write host:port"], []),
    ({"TUTTI_DEVICE": "", "CUDA_VISIBLE_DEVICES": "-1"}, False, ["ranks are to compute on CUDA devices, but there is no CUDA"],
     ["TUTTI_DEVICE", "config.device"]),
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


# Files that NCCL goes on with, one oddity each; what is logged of it.
TOPOLOGIES = [
    ("<system version='1'/>", "line 1: <system> has no <cpu>"),
    ("<system version='1'><cpu numaid='0'><pci busid='0000:00:16.0'/></cpu></system>", None),
    ("<system version='1'><cpu numaid='0'><pci busid='1:0.0'><gpu><nvlink target='1:0.0' count='12' tclass='0x030200'/>"
     "</gpu></pci></cpu></system>", "line 1: <nvlink> of 0000:01:00.0 to 0000:01:00.0 leads from a device to itself"),
    ("<system version='1'><cpu numaid='0'><pci busid='1:0.0' class='0x060400'><pci busid='2:0.0'><gpu dev='0'/></pci></pci>"
     "<pci busid='1:0.0' class='0x060400'><pci busid='3:0.0'><gpu dev='1'/></pci></pci></cpu></system>",
     "line 1: <pci> 0000:01:00.0 has the bus id of an earlier one"),
]


def check_topologies(client, complain):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/machine.xml"
        for text, warning in TOPOLOGIES:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            status, output = run(client, {"NCCL_TOPO_FILE": path})
            if status != 0:
                complain(f"NCCL_TOPO_FILE: {text}: exit status {status}\n{output}")
            if warning is None and " warn " in output:
                complain(f"NCCL_TOPO_FILE: {text}: a warning of what is read\n{output}")
            if warning is not None and f" warn topology: TUTTI_TOPO_FILE={path}: {warning}" not in output:
                complain(f"NCCL_TOPO_FILE: {text}: no warning '{warning}'\n{output}")
        with open(path, "w", encoding="utf-8") as file:
            file.write("<system version='1'>\n<cpu numaid='0'>")
        status, output = run(client, {"NCCL_TOPO_FILE": path})
        if status == 0 or f"{path}:2: not XML" not in output:
            complain(f"NCCL_TOPO_FILE: a file that is cut off\n{output}")


def check_host(client, complain):
    """The dump has a number of each host, made of its name."""
    hosts = []
    for name in ("here", "there"):
        with tempfile.TemporaryDirectory() as folder:
            status, output = run(client, {"NCCL_HOSTID": name, "NCCL_TOPO_DUMP_FILE": folder + "/topo.xml"})
            text = open(folder + "/topo.xml", encoding="utf-8").read() if status == 0 else output
            hosts.append(re.findall('host_hash="[^"]*"', text))
    if not hosts[0] or hosts[0] == hosts[1]:
        complain(f"NCCL_HOSTID: the hosts are {hosts}")


def check_without_gpu(library, complain):
    """Nobody has asked for TUTTI_DEVICE=cuda."""
    program = f"""if True:
        import ctypes
        nccl = ctypes.CDLL({library!r})
        nccl.ncclGetLastError.restype = ctypes.c_char_p
        some = (ctypes.c_void_p * 2)()
        for call in (lambda: nccl.ncclMemAlloc(some, ctypes.c_size_t(64)), lambda: nccl.ncclCommInitAll(some, 2, None)):
            print(call(), nccl.ncclGetLastError(None).decode())"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "TUTTI_"))}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "HOME": ""}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment).stdout
    if len(re.findall("^1 nccl.*: ranks are to compute on CUDA devices, but", said, re.M)) != 2 or "TUTTI_DEVICE" in said:
        complain(f"without a GPU the calls say\n{said}")


# Looked at by functions of their own.
ELSEWHERE = {"NCCL_DEBUG_FILE": check_files, "NCCL_TOPO_DUMP_FILE": check_files, "NCCL_CONF_FILE": check_files,
             "NCCL_HOSTID": check_host}
# Of NCCL itself: the files that it writes are read here.
OF_NCCL = {"NCCL_GRAPH_DUMP_FILE"}


def check_documents(document, complain):
    """What the documents name is tried here, or is one of C's names."""
    folder = os.path.dirname(document)
    tried = {name for variables, *_ in CASES for name in variables} | ELSEWHERE.keys() | OF_NCCL
    header = open(os.path.join(folder, "../include/tutti/nccl.h"), encoding="utf-8").read()
    for place, _, files in os.walk(folder):
        for name in (name for name in files if name.endswith(".md")):
            text = open(os.path.join(place, name), encoding="utf-8").read()
            for variable in sorted(set(re.findall(r"(?<!_)\bNCCL_[A-Z][A-Z0-9_]+", text))):
                if variable not in tried and not re.search(rf"\b{variable}\b", header):
                    complain(f"{name} names {variable}, which no case of this test sets")


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
    check_topologies(client, complaints.append)
    check_host(client, complaints.append)
    check_without_gpu(library, complaints.append)
    check_comm_id(client, complaints.append)
    check_documents(document, complaints.append)
    check_parameters(library, document, complaints.append)
    print("\n".join(complaints))
    print(f"{len(CASES)} sets of variables, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
