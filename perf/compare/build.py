"""Finds the peers that are installed and compiles their adapters when they are first needed.

Tutti's own adapter is built by Meson with everything else; the peers' are compiled here with one call of their
compiler wrapper, so that a peer installed later needs no new configuration.
"""
import json
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
COMMON = [os.path.join(HERE, f) for f in ("loop.cpp", "cell.cpp", "control.cpp", "meeting.cpp", "shared_page.cpp")]
COMMON.append(os.path.join(TOP, "perf", "common", "placement.cpp"))
PEERS = [*COMMON, os.path.join(HERE, "sockets.cpp")]
FLAGS = ["-std=c++20", "-O3", "-D_GNU_SOURCE", "-I" + TOP, "-pthread", "-w"]
EXPORTS = ["-rdynamic"]  # libraries that are loaded later have to find the socket() of sockets.cpp


class BuildError(Exception):
    pass


def output_of(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def has_mpi_header(compiler):
    """Debian has the wrapper in one package with mpirun, and mpi.h in another."""
    return subprocess.run([compiler, "-fsyntax-only", "-x", "c++", "-"], input="#include <mpi.h>\n", text=True,
                          capture_output=True).returncode == 0


def find_openmpi():
    """(launcher, major version, compiler wrapper) or None."""
    for suffix in (".openmpi", ""):
        launcher, compiler = shutil.which("mpirun" + suffix), shutil.which("mpicxx" + suffix)
        version = re.search(r"Open MPI\)? v?(\d+)", output_of([launcher, "--version"])) if launcher else None
        if version and compiler and has_mpi_header(compiler):
            return launcher, int(version.group(1)), compiler
    return None


def find_mpich():
    for suffix in (".mpich", ""):
        launcher, compiler = shutil.which("mpirun" + suffix), shutil.which("mpicxx" + suffix)
        if launcher and compiler and "HYDRA" in output_of([launcher, "--version"]) and has_mpi_header(compiler):
            version = re.search(r"Version:\s*(\d+)", output_of([launcher, "--version"]))
            return launcher, int(version.group(1)) if version else 0, compiler
    return None


def find_peers(gloo=None, ucc=None, deepspeed=None):
    """{family: what is needed to compile and start it} of all peers there are; gloo, ucc: installation prefixes; deepspeed: its
    sources."""
    peers = {"openmpi": find_openmpi(), "mpich": find_mpich()}
    if gloo:
        peers["gloo"] = (gloo,)
    if ucc:
        peers["ucc"] = (ucc,)
    elif output_of(["pkg-config", "--modversion", "ucc"]):
        peers["ucc"] = (output_of(["pkg-config", "--variable=prefix", "ucc"]).strip(),)
    if deepspeed:
        peers["deepspeed"] = (deepspeed,)
    return {family: found for family, found in peers.items() if found}


def _library(prefix, name):
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
        for ending in (".so", ".a"):
            path = os.path.join(prefix, folder, name + ending)
            if os.path.exists(path):
                return path
    raise BuildError(f"{prefix} has no {name}.so or {name}.a")


def _command(family, peer):
    """The compiler with all flags of a peer, without source and output; and the adapter's file."""
    if family in ("openmpi", "mpich"):
        return [peer[2], "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", *FLAGS], [], "mpi.cpp"
    prefix = peer[0]
    include = ["-I" + os.path.join(prefix, "include")]
    if family == "gloo":
        library = _library(prefix, "libgloo")
        uv = output_of(["pkg-config", "--libs", "libuv"]).split()
        return ["g++", *FLAGS, "-march=native", *include], [library, *uv, "-Wl,-rpath," + os.path.dirname(library)], "gloo.cpp"
    if family == "deepspeed":  # as DeepSpeed compiles it, without threads of its own
        return (["g++", *FLAGS, "-march=native", "-I" + prefix, "-I" + os.path.join(HERE, "adapters", "tensor")],
                [os.path.join(prefix, "csrc", "cpu", "comm", "shm.cpp")], "deepspeed.cpp")
    library = _library(prefix, "libucc")
    return ["g++", *FLAGS, *include], [library, "-Wl,-rpath," + os.path.dirname(library)], "ucc.cpp"


def adapter(family, peer, folder):
    """The adapter program of a peer in `folder`, compiled anew if its sources are newer.  Raises BuildError."""
    compiler, libraries, source = _command(family, peer)
    return _compiled([*compiler, *EXPORTS], [*PEERS, os.path.join(HERE, "adapters", source)], libraries,
                     os.path.join(folder, "compare_" + family))


def _compiled(compiler, sources, libraries, program):
    stamp = program + ".command"
    command = [*compiler, *sources, *libraries, "-o", program]
    headers = [os.path.join(HERE, h) for h in os.listdir(HERE) if h.endswith(".hpp")]
    newest = max(os.path.getmtime(f) for f in [*sources, *headers, *(lib for lib in libraries if os.path.isfile(lib))])
    if os.path.exists(program) and os.path.exists(stamp):
        with open(stamp) as f:
            if os.path.getmtime(program) > newest and f.read() == " ".join(command):
                return program
    os.makedirs(os.path.dirname(program), exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    with open(stamp, "w") as f:
        f.write(" ".join(command))
    return program


def tutti_adapter(build):
    program = os.path.join(build, "perf", "compare", "compare_tutti")
    if not os.access(program, os.X_OK):
        raise BuildError(f"{program} is not there: run  ninja -C {build} perf/compare/compare_tutti")
    return program


def other_adapter(label, base, folder):
    """Tutti's adapter on the library of another build folder, which may be older than the talk with this driver."""
    library = os.path.join(base, "packaging", "libtutti.so")
    try:
        with open(os.path.join(base, "meson-info", "meson-info.json")) as f:
            source = json.load(f)["directories"]["source"]
    except (OSError, ValueError, KeyError) as error:
        raise BuildError(f"{base} is no build folder of Tutti: {error}")
    if not os.path.exists(library):
        raise BuildError(f"{library} is not there: run  ninja -C {base} packaging/libtutti.so")
    return _compiled(["g++", "-I" + os.path.join(source, "include"), *FLAGS],
                     [*COMMON, os.path.join(HERE, "adapters", "tutti.cpp")],
                     [library, "-Wl,-rpath," + os.path.dirname(os.path.abspath(library))],
                     os.path.join(folder, "compare_against_" + re.sub(r"\W", "_", label)))
