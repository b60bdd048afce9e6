"""Who is compared, and in which settings: one table.

Every setting says why it is there.  Several settings of one library are tried and the best counts in every cell, so a
setting that is good somewhere can only make the comparison harder for Tutti.
"""
import dataclasses
import os

import congestion


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str  # as in the tables
    family: str  # the library: one of FAMILIES
    transport: str  # shm, tcp or verbs
    why: str
    environment: tuple = ()  # (name, value) pairs
    arguments: tuple = ()  # of the launcher
    memory: str = "plain"  # of the buffers: MEMORY of loop.cpp
    pinned: bool = True  # False: never pinned, whatever the run says
    most_ranks: int = 1 << 20


# Open MPI 5 calls its shared-memory transport "sm", version 4 "vader"; @SM@ stands for either.
_OMPI_SHM = ("--mca", "pml", "ob1", "--mca", "btl", "@SM@,self")
_OMPI_UCX = ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any", "--mca", "btl",
             "^openib,tcp")

TABLE = (
    Setting("tutti", "tutti", "shm", "defaults, buffers as malloc gives them", (("TUTTI_TRANSPORTS", "shm,self"),)),
    Setting("tutti+reg", "tutti", "shm", "defaults, buffers from tuttiMemAlloc, which peers can reach directly",
            (("TUTTI_TRANSPORTS", "shm,self"),), memory="own"),
    Setting("openmpi", "openmpi", "shm", "ob1 over shared memory with single copy (CMA): best for most small and middle "
            "sizes", arguments=_OMPI_SHM),
    Setting("openmpi-nocma", "openmpi", "shm", "double copy through shared memory: faster than CMA from 32 MiB in "
            "send, broadcast and reduce, where pinning 4 KiB pages costs more than a second copy",
            arguments=_OMPI_SHM + ("--mca", "btl_@SM@_single_copy_mechanism", "none")),
    Setting("openmpi-han", "openmpi", "shm", "the hierarchical component preferred: best broadcast, allgather and "
            "alltoall in some large sizes", arguments=_OMPI_SHM + ("--mca", "coll_han_priority", "100")),
    Setting("openmpi-ucx", "openmpi", "shm", "UCX instead of ob1: best from 1 to 64 KiB and at many small cells beyond "
            "two ranks; the two 'any' let it run on a machine without RDMA", (("UCX_TLS", "self,sm"),), _OMPI_UCX),
    Setting("mpich", "mpich", "shm", "defaults; yields between polls, else more ranks than cores take milliseconds",
            (("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"),), most_ranks=4),
    Setting("ucc", "ucc", "shm", "persistent collectives over UCX shared memory and CMA: the strongest at large sizes",
            (("UCX_TLS", "self,sm"),)),
    Setting("deepspeed", "deepspeed", "shm", "allreduce through one buffer of shared memory, all ranks in step: the strongest at "
            "some megabytes with a core each, where its ranks spin"),
    Setting("tutti", "tutti", "tcp", "defaults, buffers as malloc gives them", (("TUTTI_TRANSPORTS", "tcp,self"),)),
    Setting("tutti+reg", "tutti", "tcp", "defaults, buffers from tuttiMemAlloc", (("TUTTI_TRANSPORTS", "tcp,self"),),
            memory="own"),
    Setting("openmpi-tcp", "openmpi", "tcp", "ob1 over tcp", arguments=("--mca", "pml", "ob1", "--mca", "btl",
            "tcp,self", "--mca", "btl_tcp_if_include", "lo")),
    Setting("openmpi-ucxtcp", "openmpi", "tcp", "UCX's tcp: the lowest latency at two ranks",
            (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo")), _OMPI_UCX),
    Setting("mpich-tcp", "mpich", "tcp", "told to ignore that the ranks share a host; best two-rank ping-pong",
            (("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1"), ("UCX_TLS", "self,tcp"),
             ("UCX_NET_DEVICES", "lo")), most_ranks=4),
    Setting("tutti", "tutti", "verbs", "defaults, buffers as malloc gives them", (("TUTTI_TRANSPORTS", "verbs,self"),)),
    Setting("tutti+reg", "tutti", "verbs", "defaults, buffers from tuttiMemAlloc, which adapters reach directly",
            (("TUTTI_TRANSPORTS", "verbs,self"),), memory="own"),
    Setting("openmpi-ucxrc", "openmpi", "verbs", "UCX over reliable connections, which it sets up by datagrams: rc needs ud; "
            "and on Soft-RoCE those come only without the check",
            (("UCX_TLS", "rc,ud,self"), ("UCX_UD_VERBS_ETH_DGID_CHECK", "n")), _OMPI_UCX),
    Setting("ucc-tcp", "ucc", "tcp", "persistent collectives over UCX tcp: best at large sizes and more ranks",
            (("UCX_TLS", "self,tcp"), ("UCX_NET_DEVICES", "lo"))),
    Setting("gloo", "gloo", "tcp", "tcp transport (epoll thread), ring; unpinned, because that thread needs a core",
            (("COMPARE_GLOO", "tcp,ring"),), pinned=False),
    Setting("gloo-bcube", "gloo", "tcp", "as gloo, with the bcube allreduce: fewer rounds", (("COMPARE_GLOO", "tcp,bcube"),),
            pinned=False),
    Setting("gloo-uv", "gloo", "tcp", "libuv transport: faster than tcp's from 4 MiB up", (("COMPARE_GLOO", "uv,ring"),),
            pinned=False),
)

FAMILIES = ("tutti", "openmpi", "mpich", "ucc", "deepspeed", "gloo")


def settings_for(transport, families, ranks, names=None):
    """The settings to run, Tutti's first; names, if given, restricts the peers to these."""
    chosen = [s for s in TABLE if s.transport == transport and s.family in families and ranks <= s.most_ranks]
    return [s for s in chosen if s.family == "tutti" or names is None or s.name in names]


def against(label, base, cache):
    """Another build of Tutti as a peer: the settings of Tutti itself under another family and name.

    cache: the folder for what it measures of the machine.  Builds that shared one would each find the other's file in a
    format that is not theirs, and measure anew at every start.
    """
    return [dataclasses.replace(s, name=s.name.replace("tutti", label), family=label, why=f"another build: {base}",
                                environment=s.environment + (("XDG_CACHE_HOME", cache),))
            for s in TABLE if s.family == "tutti"]


def launch_line(setting, ranks, program, launchers, oversubscribed):
    """The command that starts all ranks, or None where the driver starts each rank itself."""
    if setting.family == "openmpi":
        launcher, version = launchers["openmpi"][:2]
        sm = "vader" if version < 5 else "sm"
        arguments = [a.replace("@SM@", sm) for a in setting.arguments]
        # The loop pins its own rank, as it does for every library.  Oversubscribed, Open MPI must yield.
        crowd = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if oversubscribed else []
        return [launcher, "-np", str(ranks), "--bind-to", "none", *crowd, *arguments, program]
    if setting.family == "mpich":
        return [launchers["mpich"][0], "-np", str(ranks), *setting.arguments, program]
    return None


def environment_for(setting, ranks, cpus, oversubscribed, beside=False):
    """The environment of every rank of this setting.  beside: busy loops have the cores, too."""
    environment = dict(os.environ, **dict(setting.environment))
    environment["COMPARE_SIZE"] = str(ranks)
    environment["COMPARE_CPUS"] = ",".join(map(str, cpus)) if setting.pinned else ""
    environment["COMPARE_LOOK"] = "1" if setting.pinned and len(cpus) > 1 and not beside else "0"
    environment["COMPARE_YIELD"] = "1" if oversubscribed else "0"
    if setting.transport == "tcp" and setting.family in FAMILIES[1:]:
        environment["COMPARE_CONGESTION"] = congestion.of_tutti()
    if setting.family == "openmpi":  # it refuses root otherwise; containers run as root
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment
