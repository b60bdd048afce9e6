#!/usr/bin/env python3
"""Every option that a program's --help lists, or a document shows with it, does something.
usage: options_test.py SOURCE BUILD

An option without a row below fails the test, and so does one that a document shows and no program has."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(path) for path in sys.argv[1:3])
FOLDER = tempfile.mkdtemp()
PERF = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather", "scatter",
        "sendrecv", "hypercube"]
GPUS = "gpu:4 nvlink:6x25 nic:2x50"
# What a program is asked beside the option of a row.
BASE = {
    "tutti-run": ["-n", "2", "sh", "-c", "echo rank $RANK"],
    "tutti-info": [],
    "tutti-sim": ["machine gpu:8 nvlink:18x20.6", "--algorithm", "ring", "--bytes", "64K"],
    "tutti-tune": ["--sizes", "8", "--collectives", "broadcast", "--rounds", "1", "--block-ms", "0.1"],
    "tutti-plan": ["--layers", "4", "--hidden", "1024", "--heads", "16", "--sequence", "2048", "--batch", "64", "--ranks", "16"],
    "all_reduce_perf": ["-t", "2", "-b", "8", "-e", "8", "-n", "1", "-w", "0"],
}


NODE = ["hgx-h100", "--bytes", "64K"]
STAGE3 = ["--layout", "dp16,zero3", "--gpu", "h100"]  # of tutti-plan
SAME_OF_THE_SAME = ("tutti-info", "tutti-sim", "tutti-plan")


def run(program, arguments):
    folder = "tools" if program.startswith("tutti-") else "perf"
    command = [str(BUILD / folder / program), *(a.replace("FOLDER", FOLDER) for a in arguments)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TUTTI_", "NCCL_"))}
    environment["TUTTI_CALIBRATION"] = FOLDER + "/figures"
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout


class Differs:
    """The program says something else with the option than without; with a pattern, something that matches it.  Times
    differ by themselves, so programs that measure need a pattern."""

    def __init__(self, *arguments, base=None, pattern=""):
        self.arguments, self.base, self.pattern = list(arguments), base, pattern

    def check(self, program):
        base = BASE[program] if self.base is None else self.base
        if not self.pattern and program not in SAME_OF_THE_SAME:
            return "a pattern is needed"
        (status, said), (_, without) = run(program, base + self.arguments), run(program, base)
        if status != 0 or said == without or not re.search(self.pattern, said, re.M):
            return f"{base + self.arguments} gives {status}, {self.pattern!r} or a difference is missing:\n{said}"
        if self.pattern and re.search(self.pattern, without, re.M):
            return f"without it there is {self.pattern!r} too:\n{without}"
        return ""


class Says:
    """The program called like this, with nothing else."""

    def __init__(self, *arguments, pattern):
        self.arguments, self.pattern = list(arguments), pattern

    def check(self, program):
        status, said = run(program, self.arguments)
        return "" if status == 0 and re.search(self.pattern, said) else f"{self.arguments} gives {status}:\n{said}"


class Refused:
    """An error that says this."""

    def __init__(self, *arguments, says, base=None):
        self.arguments, self.says, self.base = list(arguments), says, base

    def check(self, program):
        status, said = run(program, (BASE[program] if self.base is None else self.base) + self.arguments)
        return "" if status != 0 and self.says in said else f"{self.arguments} gives {status}, no {self.says!r}:\n{said}"


class Writes:
    def __init__(self, *arguments, base=None):
        self.arguments, self.base = list(arguments), base

    def check(self, program):
        path = pathlib.Path(FOLDER) / "written"
        path.unlink(missing_ok=True)
        _, said = run(program, (BASE[program] if self.base is None else self.base) + self.arguments + [str(path)])
        return "" if path.exists() and path.stat().st_size > 0 else f"{self.arguments} writes no file:\n{said}"


class Keeps:
    """What tutti-tune keeps of two ranks lacks these lines with the option, and has them without."""

    def __init__(self, *arguments, less):
        self.arguments, self.less = arguments, less

    def check(self, program):
        kept = []
        for more in ([], self.arguments):
            file = pathlib.Path(FOLDER) / "figures.tuned"
            file.unlink(missing_ok=True)
            _, said = run("tutti-run", ["-n", "2", str(BUILD / "tools" / program), *BASE[program][2:], "--sizes", "64K", *more])
            kept.append(file.read_text(encoding="utf-8") if file.exists() else "")
        if re.search(self.less, kept[0], re.M) and not re.search(self.less, kept[1], re.M):
            return ""
        return f"kept without {self.arguments}:\n{kept[0]}\nand with:\n{kept[1]}\n{said}"


class Launches:
    """tutti-run with the option, in front of its program."""

    def __init__(self, *arguments, script="echo rank $RANK $A", status=0, pattern="", ranks=("-n", "2")):
        self.arguments, self.script, self.status, self.pattern, self.ranks = arguments, script, status, pattern, ranks

    def check(self, program):
        status, said = run(program, [*self.ranks, *self.arguments, "sh", "-c", self.script])
        if status != self.status or not re.search(self.pattern, said, re.M):
            return f"{self.arguments} gives {status}, no {self.pattern!r}:\n{said}"
        return ""


CPUS = "grep Cpus_allowed_list /proc/self/status | cut -f 2"
ALLOWED = re.search(r"Cpus_allowed_list:\s*(\S+)", pathlib.Path("/proc/self/status").read_text(encoding="utf-8")).group(1)
PLAN, RINGS = ["--plan", "allreduce"], ["--topology", GPUS, "--rings"]
ALONE = {"--version": [Says("--version", pattern=r"\A[a-z_-]+ \d+\.\d+\.\d+\n\Z")]}
ROWS = {
    "tutti-run": {
        "-n": [Launches(ranks=("-n", "3"), pattern="rank 2"), Launches(ranks=("-np", "3"), pattern="rank 2"),
               Launches(ranks=("-n", "0"), status=1, pattern="-n")],
        "--bind": [Launches("--bind", "moon", status=1, pattern="--bind: moon not in")],
        "--no-bind": [Launches("--bind", "share", script=CPUS, ranks=("-n", "1", "--no-bind"), pattern=f"^{ALLOWED}$")],
        "--timeout": [Launches("--timeout", "0.2", "--grace", "0.1", script="sleep 60", status=124, pattern="not done after")],
        "--grace": [Launches("--grace", "0.1", script="if [ $RANK = 1 ]; then exit 5; fi; sleep 60", status=5,
                             pattern="ending the other ranks")],
        "--tag-output": [Launches("--tag-output", pattern=r"^\[1\] rank 1")],
        "--no-tag": [Launches("--no-tag", pattern="^rank 1")],
        "--every-error": [Launches("--every-error", script="echo wrong [TUTTI-5201] >&2", pattern=r"(?s)wrong.*wrong"),
                          Launches("--no-tag", script="echo wrong [TUTTI-5201] >&2", pattern="ranks? 1 says the same|rank 0 says the same")],
        "-x": [Launches("-x", "A=word", pattern="rank 1 word"), Launches("-x", "=", status=1, pattern="-x")],
        "--host": [Launches("--host", "a", status=1, pattern="mpirun, srun or torchrun")],
    },
    "tutti-info": {
        "--config": [Differs("--config", pattern="TUTTI_ALGO")],
        "--markdown": [Differs("--markdown", base=["--config"], pattern=r"^\| `TUTTI_ALGO`")],
        "--explain": [Differs("--explain", "TUTTI-5104", pattern="names nothing that exists"),
                      Differs("--explain", "tuttiAllReduce: comm is NULL [TUTTI-4002]", pattern="^TUTTI-4002 "),
                      Refused("--explain", "TUTTI-9999", says="no error TUTTI-9999")],
        "--calibration": [Differs("--calibration", pattern="^tutti-calibration ")],
        "--plan": [Differs(*PLAN, pattern="plan allreduce"), Refused("--plan", "telepathy", says="--plan 'telepathy'")],
        "--bytes": [Differs("--bytes", "8", base=PLAN, pattern="allreduce 8 "), Refused(*PLAN, "--bytes", "x", says="--bytes x")],
        "--ranks": [Differs("--ranks", "5", base=PLAN, pattern="on 5 ranks"), Refused(*PLAN, "--ranks", "0", says="--ranks 0")],
        "--topo": [Differs("--topo", GPUS, base=PLAN)],
        "--hosts": [Differs("--hosts", "2", base=PLAN + ["--ranks", "4"]), Refused("--hosts", "2", says="--hosts needs")],
        "--transport": [Differs("--transport", "tcp", base=PLAN, pattern="tcp-local"),
                        Refused(*PLAN, "--transport", "x", says="--transport x")],
        "--cores": [Differs("--cores", "1", base=PLAN + ["--ranks", "8"])],
        "--threads": [Differs("--threads", base=PLAN, pattern="shm-threads")],
        "--direct": [Differs("--direct", base=PLAN + ["--bytes", "64M"])],
        "--way": [Differs("--way", "cuda-streams", base=PLAN), Refused(*PLAN, "--way", "x", says="--way x")],
        "--topology": [Differs("--topology", GPUS, base=[])],
        "--dot": [Differs("--dot", base=["--topology", GPUS], pattern="graph")],
        "--svg": [Differs("--svg", base=["--topology", GPUS], pattern="<svg")],
        "--xml": [Differs("--xml", base=["--topology", GPUS], pattern="<system")],
        "--json": [Differs("--json", base=["--topology", GPUS], pattern='"kind": "'),
                   Differs("--json", base=["--plan", "allreduce"], pattern='"candidates": ')],
        "--paths": [Differs("--paths", base=["--topology", GPUS])],
        "--rings": [Differs("--rings", base=["--topology", GPUS])],
        "--gpus": [Differs("--gpus", "0,1", base=RINGS), Refused(*RINGS, "--gpus", "9", says="no GPU 9")],
        "--import": [Refused("--import", "FOLDER/missing.xml", says="missing.xml")],
        "--export": [Differs("--export", "msccl", "allreduce:ring", base=[], pattern="<algo"),
                     Refused("--export", "x", "allreduce:ring", says="--export x")],
        "--in-place": [Differs("--in-place", base=["--export", "msccl", "allgather:ring"])],
    },
    "tutti-sim": {
        "--collective": [Differs("--collective", "allgather"), Refused("--collective", "x", says="--collective 'x'")],
        "--algorithm": [Differs("--algorithm", "tree", base=BASE["tutti-sim"][:1]), Refused(
            "--algorithm", "rign", base=BASE["tutti-sim"][:1], says="--algorithm rign: ")],
        "--plan": [Refused("--plan", "FOLDER/missing.xml", base=BASE["tutti-sim"][:1], says="missing.xml")],
        "--bytes": [Differs("--bytes", "64M", base=BASE["tutti-sim"][:3], pattern="ring, 64M"), Refused(
            "--bytes", "x", base=BASE["tutti-sim"][:3], says="--bytes x")],
        "--root": [Refused("--root", "9", base=[BASE["tutti-sim"][0], "--collective", "broadcast"], says="9")],
        "--channels": [Differs("--channels", "2"), Refused("--channels", "-1", says="--channels -1")],
        "--protocol": [Differs("--protocol", "simple", base=["nodes 2; machine gpu:8 nvlink:18x20.6 nic:8x50; near simple "
                                 "overhead:0.5 latency:3; near ll overhead:0.1 latency:1 efficiency:0.4"] +
                                 BASE["tutti-sim"][1:]), Refused("--protocol", "x", says="--protocol x: the cluster has ")],
        "--detail": [Refused("--detail", "x", says="--detail x")],
        "--single": [Differs("--single", base=[BASE["tutti-sim"][0], "--collective", "alltoall", "--algorithm", "bruck2"])],
        "--out-of-place": [Differs("--out-of-place", base=[BASE["tutti-sim"][0], "--collective", "gather", "--bytes", "64K"])],
        "--links": [Differs("--links", "2")],
        "--critical-path": [Differs("--critical-path")],
        "--trace": [Writes("--trace")],
        "--json": [Differs("--json", pattern='"busbw_gbps": '), Differs("--json", base=BASE["tutti-sim"][:3] + ["--compare"], pattern='"sizes": ')],
        "--compare": [Differs("--compare", base=BASE["tutti-sim"][:3])],
        "--min": [Differs("--min", "16K", base=BASE["tutti-sim"][:3] + ["--compare"])],
        "--max": [Differs("--max", "16K", base=BASE["tutti-sim"][:3] + ["--compare"])],
        "--factor": [Differs("--factor", "16", base=BASE["tutti-sim"][:3] + ["--compare"])],
        "--svg": [Writes("--svg", base=BASE["tutti-sim"][:3] + ["--compare"])],
        "--count": [Differs("--count", pattern="textbook"), Differs("--count", "--json", pattern='"textbook_bytes": 114688')],
        "--machines": [Differs("--machines", base=[], pattern="hgx-h100")],
        "--fail": [Differs("--fail", "link"), Refused("--fail", "x", says="--fail x")],
        "--executor": [Differs("--executor", "resident", base=NODE + ["--as", "tutti"]), Refused("--executor", "x", base=NODE + ["--as", "tutti"], says="--executor x: there are"),
                       Refused("--executor", "stream", base=NODE + ["--as", "nccl"], says="--as nccl takes no --executor")],
        "--as": [Differs("--as", "tutti", base=NODE), Differs("--as", "nccl", base=NODE, pattern="as NCCL 2.30"), Differs("--as", "nccl", "--compare", base=NODE, pattern="NCCL / it"),
                 Differs("--as", "nccl", "--json", base=NODE, pattern='"as": "nccl"'), Refused("--as", "x", base=NODE, says="--as x"),
                 Refused("--as", "nccl", "--links", "2", base=NODE, says="--as nccl takes no --executor, --links")],
        "--nccl-release": [Differs("--nccl-release", "2.18", base=NODE + ["--as", "nccl"]),
                           Refused("--nccl-release", "x", base=NODE + ["--as", "nccl"], says="--nccl-release x")],
        "--gpus-per-process": [Differs("--gpus-per-process", "8", base=NODE + ["--as", "nccl"], pattern="kernels of 8 GPUs"),
                               Refused("--gpus-per-process", "9", base=NODE + ["--as", "nccl"], says="--gpus-per-process 9")],
        "--alone": [Differs("--alone", base=NODE + ["--as", "nccl"], pattern="until a call alone is launched")],
        "--sharp": [Differs("--sharp", base=["nodes 8; machine hgx-h100", "--as", "nccl"], pattern=r"nvls\+sharp")],
        "--validate": [Differs("--validate", "--sets", "a", base=[])],
        "--fit": [Refused("--fit", says="--validate")],
        "--sets": [Refused("--validate", "--sets", "nosuch", base=[], says="--sets nosuch")],
    },
    "tutti-tune": {
        "--sizes": [Differs("--sizes", "64", base=BASE["tutti-tune"][2:], pattern=r"\Abroadcast +64 .*\n# kept"),
                    Refused("--sizes", "x", base=[], says="--sizes")],
        "--collectives": [Differs("--collectives", "reduce", base=BASE["tutti-tune"][:2] + BASE["tutti-tune"][4:],
                                  pattern=r"\Areduce +8 "),
                          Refused("--collectives", "x", base=[], says="--collectives")],
        "--rounds": [Refused("--rounds", "0", base=[], says="--rounds")],
        "--block-ms": [Refused("--block-ms", "0", base=[], says="--block-ms")],
        "--no-sends": [Keeps("--no-sends", less=r"^send ")],
        "--fresh": [Differs("--fresh", base=BASE["tutti-tune"] + ["--reused"], pattern="# kept .* new data in every call")],
        "--reused": [Differs("--reused", pattern="# kept .* the same data in all calls")],
        "--dry-run": [Keeps("--dry-run", less="end")],
    },
    "tutti-plan": {
        "--table": [Differs("--table", name, base=[]) for name in 
                    ("sequence", "zero", "zero++", "bubble", "dualpipe", "days", "recompute", "utilization", "ring", "context", "gather", "servers",
                     "runs", "zero-runs", "llama", "long", "nemo", "strong", "deepseek", "guides")] + [
            Refused("--table", "x", base=[], says="--table x: there are")],
        "--run": [Differs("--run", "22b-full", base=[]), Refused("--run", "x", base=[], says="--run x: there are 22b-full")],
        "--layout": [Differs("--layout", "tp2,pp2,dp4,micro2,zero1", pattern="memory of the fullest"),
                     Refused("--layout", "tq2", says="--layout tq2: there are"),
                     Refused("--layout", "tp2,dp2", says="are 4 ranks, the machine has 16")],
        "--gpu": [Differs("--gpu", "h100"), Refused("--gpu", "x", says="--gpu x: products are known of")],
        "--element-bytes": [Differs("--element-bytes", "1", base=BASE["tutti-plan"] + ["--gpu", "h100"]),
                            Refused("--gpu", "a100", "--element-bytes", "1", says="no elements of 1 byte")],
        "--watts": [Differs("--watts", "300", base=BASE["tutti-plan"] + ["--gpu", "h100"]), Refused("--watts", "x", says="--watts x: that is no number")],
        "--memory-bandwidth": [Differs("--memory-bandwidth", "1e12", base=BASE["tutti-plan"] + ["--gpu", "h100"])],
        "--attention-flops": [Differs("--attention-flops", "1e13", base=BASE["tutti-plan"] + ["--gpu", "h100"])],
        "--sustained": [Differs("--sustained", "0.3", base=BASE["tutti-plan"] + ["--gpu", "h100"]), Refused("--sustained", "2", says="products sustain 2")],
        "--cast-bytes": [Differs("--cast-bytes", "40", base=BASE["tutti-plan"] + ["--gpu", "h100", "--element-bytes", "1"])],
        "--memory-copies": [Differs("--memory-copies", "9", base=BASE["tutti-plan"] + STAGE3)],
        "--gathers": [Differs("--gathers", "9", base=BASE["tutti-plan"] + STAGE3), Refused("--gathers", "1e7", says="at most a million")],
        "--tensors": [Differs("--tensors", "1000", base=BASE["tutti-plan"] + STAGE3)],
        "--zero-plus": [Differs("--zero-plus", "1", base=BASE["tutti-plan"] + STAGE3)],
        "--part-us": [Differs("--part-us", "1000", base=BASE["tutti-plan"] + STAGE3)],
        "--layers": [Refused("--layers", "x", says="--layers x: that is no number")],
        "--experts": [Differs("--experts", "8", "--expert-width", "512", "--choices", "2")],
        "--memory": [Differs("--memory", "4e9")],
        "--speeds": [Refused("--speeds", "1,2", says="--speeds has 2 numbers for 16 ranks")],
    } | {option: [Differs(option, value)] for option, value in (
        ("--hidden", "2048"), ("--heads", "8"), ("--sequence", "4096"), ("--batch", "128"), ("--ranks", "8"),
        ("--vocabulary", "100000"), ("--parameters", "1e9"), ("--kv-heads", "4"), ("--visible", "0.5"), ("--attention-width", "8192"),
        ("--per-node", "4"), ("--adapters", "1"), ("--flops", "5e12"), ("--node-bandwidth", "10e9"), ("--node-latency-us", "500"),
        ("--bandwidth", "1e9"), ("--latency-us", "500"), ("--overlap", "0.1"))} | {
        "--key-block": [Differs("--key-block", "64", base=BASE["tutti-plan"] + ["--sequence", "131072"])],
        "--choices": [Differs("--choices", "2", base=BASE["tutti-plan"] + ["--experts", "8", "--expert-width", "512"])],
        "--expert-width": [Differs("--expert-width", "1024", base=BASE["tutti-plan"] + ["--experts", "8"])]},
    "all_reduce_perf": {
        "-t": [Differs("-t", "3", pattern="Rank  2 "), Refused("-t", "0", says="--nthreads")],
        "-g": [Differs("-g", "2", pattern="Rank  3 "), Refused("-g", "x", says="--ngpus")],
        "-b": [Differs("-b", "4", pattern="^ +4 "), Refused("-b", "x", says="--minbytes")],
        "-e": [Differs("-e", "1048584", pattern="^ +1048584 "), Refused("-e", "x", says="--maxbytes")],
        "-i": [Differs("-e", "24", "-i", "8", pattern="^ +16 "), Refused("-i", "x", says="--stepbytes")],
        "-f": [Differs("-e", "32", "-f", "2", pattern="^ +16 "), Refused("-f", "x", says="--stepfactor")],
        "-n": [Differs("-n", "3", pattern="iters: 3"), Refused("-n", "0", says="--iters")],
        "-w": [Differs("-w", "3", pattern="warmup iters: 3"), Refused("-w", "-1", says="--warmup_iters")],
        "-m": [Differs("-m", "3", pattern="agg iters: 3"), Refused("-m", "0", says="--agg_iters")],
        "-N": [Differs("-N", "2", pattern=r"(?s)^ +8 .*^ +8 "), Refused("-N", "-1", says="--run_cycles")],
        "-p": [Refused("-p", "2", says="--parallel_init")],
        "-c": [Differs("-c", "0", pattern="validation: 0"), Refused("-c", "-1", says="--check")],
        "-o": [Differs("-o", "max", pattern=" max "), Refused("-o", "x", says="--op: 'x'")],
        "-d": [Differs("-d", "half", pattern=" half "), Refused("-d", "x", says="--datatype: 'x'")],
        "-r": [Refused("-r", "x", says="--root")],
        "-z": [Differs("-z", "2", pattern="--blocking 2 is the same as 1"), Refused("-z", "4", says="--blocking")],
        "-y": [Refused("-y", "2", says="--stream_null")],
        "-T": [Refused("-T", "-1", says="--timeout")],
        "-G": [Refused("-G", "1", says="--cudagraph: graphs need CUDA")],
        "-C": [Differs("-C", "1", pattern="cputime"), Refused("-C", "2", says="--report_cputime")],
        "-a": [Refused("-a", "4", says="--average")],
        "-R": [Differs("-R", "2", pattern="symmetric windows"), Refused("-R", "3", says="--local_register")],
        "-x": [Differs("-x", "1", pattern="--cta_policy 1 has no meaning")],
        "-D": [Refused("-D", "1", says="--device_implementation")],
        "-V": [Differs("-V", "1", pattern="--device_cta_count 1 has no meaning")],
        "-S": [Differs("-S", "1", pattern="^ +8 .*:\\d\\d"), Refused("-S", "2", says="--report_timestamps")],
        "-J": [Writes("-J"), Refused("-J", "FOLDER/missing/o.json", says="cannot write")],
        "-M": [Differs("-M", "1", pattern="Peak memory"), Refused("-M", "2", says="--memory")],
        "-u": [Refused("-u", "-1", says="--unalign")],
        "-I": [Differs("-I", "1", pattern="i_p99"), Refused("-I", "2", says="--per_iter_timing")],
        "-K": [Refused("-I", "1", "-K", "5", says="--per_iter_skip leaves no call")],
        "--adopt": [Differs("--adopt", pattern="^# buffers: of malloc, registered"),
                    Refused("--adopt", "-R", "1", says="--adopt registers memory of malloc")],
        "--fresh": [Differs("--fresh", pattern="^# data: written anew before each timed call"),
                    Refused("--fresh", "-C", "1", says="--fresh times single calls")],
        "--plot": [Writes("--plot")],
    },
}


def options_of(program):
    """The first name of each option that --help lists, as {any of its names: the first}."""
    text = run(program, ["--help"])[1]
    if program == "tutti-plan":
        return {name: name for name in re.findall(r"(--[a-z-]+)", text)}
    names = {}
    for line in re.findall(r"^  (-.*?)(?: [A-Z]| {2}|\{|$)", text, re.M):
        some = re.findall(r"--?[A-Za-z][\w-]*", line)
        names |= {name: some[0] for name in some}
    return names


def shown(options):
    """Yields (page, program, option) of every command line in the documents."""
    pages = [*(SOURCE / "docs").rglob("*.md"), SOURCE / "README.md", *(SOURCE / "perf").rglob("README.md"),
             *(SOURCE / "tools").rglob("README.md")]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            for command in re.split(r"[`|;#]|  ", re.sub(r"'[^']*'", "TEXT", line)):
                program, before = None, ""
                for word in command.split():
                    name = os.path.basename(word)
                    if name in options:
                        program = name
                    elif program and re.match(r"--?[A-Za-z]", word):
                        yield page.relative_to(SOURCE), program, word.rstrip(",.):").split("=")[0]
                    elif program == "tutti-run" and not before.startswith("-"):
                        program = None  # another one, which it starts
                    before = word


def main():
    complaints = []
    options = {program: options_of(program) for program in ROWS}
    options |= {f"{name}_perf": options_of(f"{name}_perf") for name in PERF if f"{name}_perf" not in ROWS}
    for program, names in options.items():
        rows = ROWS.get(program, ROWS["all_reduce_perf"]) | ALONE
        firsts = set(names.values()) - {"-h", "--help"}
        for name in sorted(firsts - rows.keys()):
            complaints.append(f"{program} {name} has no row in {os.path.basename(__file__)}: call it and see what it does")
        for name in sorted(rows.keys() - firsts):
            complaints.append(f"{program} {name} has a row, and --help lists no such option")
    for page, program, option in shown(options):
        if option not in options[program] and option not in ("-np", "--help"):
            complaints.append(f"{page} shows {program} {option}, which there is not")
    for program, rows in ROWS.items():
        for option, checks in (rows | ALONE).items():
            for complaint in filter(None, (check.check(program) for check in checks)):
                complaints.append(f"{program} {option}: {complaint}")
    for name in PERF:
        complaints += filter(None, (check.check(f"{name}_perf") for check in ALONE["--version"]))
    count = sum(len(set(names.values())) for names in options.values())
    print("\n".join(complaints) or f"{count} options do something")
    return 1 if complaints else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
