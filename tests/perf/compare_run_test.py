"""perf/compare end to end: Tutti and whichever peers are installed, a few small cells.  Usage: FILE TOP BUILD
Exit status 77 (skipped) without any peer."""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOP, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "perf", "compare"))
import build  # noqa: E402


def compare(*arguments):
    return subprocess.run([sys.executable, os.path.join(TOP, "perf", "compare", "compare"), "--build", BUILD, "--cell-ms",
                           "2", "--passes", "1", "--timeout", "120", *arguments], capture_output=True, text=True)


def expect(condition, what, done):
    if not condition:
        sys.exit(f"FAILED: {what}\n{done.stdout}\n{done.stderr}")


def summarised(done):
    """A summary, or the sentence that there is none as the machine was too busy with other things."""
    return "worst cell" in done.stdout or "no cell has both Tutti and a peer, undisturbed" in done.stdout


def main():
    peers = build.find_peers(*(os.environ.get(name) for name in ("GLOO_PREFIX", "UCC_PREFIX", "DEEPSPEED_SOURCE")))
    if not peers:
        print("no peer is installed (Open MPI, MPICH, UCC, DeepSpeed or Gloo)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        file, picture = os.path.join(folder, "a.json"), os.path.join(folder, "a.svg")
        for transport, ranks in (("shm", "2"), ("tcp", "3")):
            done = compare("--ops", "allreduce,alltoall,broadcast,barrier,pingpong", "--sizes", "8,8K", "--ranks", ranks,
                           "--transport", transport, "--type", "both", "--json", file, "--svg", picture)
            expect(done.returncode == 0, f"exit status {done.returncode}", done)
            with open(file) as f:
                cells = json.load(f)["cells"]
            expect({c["data"] for c in cells} == {"reused", "fresh"}, "not both kinds of data", done)
            expect(len(cells) == (21 if ranks == "2" else 17), f"{len(cells)} cells", done)
            for cell in cells:
                expect("tutti" in cell["settings"], f"no time for Tutti in {cell['collective']} {cell['bytes']}", done)
                expect(not any("WRONG" in why for why in cell["failures"].values()), "a wrong result", done)
            floats = [c for c in cells if c["type"] == "float"]
            started = [c for c in floats if c["best_peer"]]
            expect(started, "no peer has a time", done)
            expect(all(c["ratio_median"]["tutti"] > 0 for c in started), "a ratio is missing", done)
            xml.etree.ElementTree.parse(picture)
            expect(summarised(done), "no summary", done)
    for kind in ("same-session", "own-session"):
        done = compare("--ops", "allreduce", "--sizes", "8", "--ranks", "2", "--fresh", "--hogs", "2", kind, "--peers",
                       next(iter(peers)), "--type", "float")
        expect(done.returncode == 0 and f"# beside 2 busy loops, {kind}" in done.stdout and summarised(done),
               f"nothing beside hogs, {kind}", done)
    done = compare("--ops", "allreduce", "--sizes", "8,300K", "--ranks", "3", "--data", "in-place", "--type", "float")
    expect(done.returncode == 0 and "allreduce, float, 3 ranks, shm, in-place data" in done.stdout and summarised(done),
           "nothing in place", done)
    done = compare("--ops", "alltoall", "--data", "in-place")
    expect(done.returncode == 2 and "--data in-place is for --ops allreduce" in done.stderr, "not refused", done)
    done = compare("--oracle", "--ops", "allreduce", "--sizes", "8,64K", "--ranks", "2", "--fresh")
    expect(done.returncode == 0 and "2 ranks: within 10 % of the best in" in done.stdout and
           "new data in every call" in done.stdout, "no oracle", done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
