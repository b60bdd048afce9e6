"""The *_perf programs, ranks as threads; faulty_tutti (tests/support) puts errors into results that they must find.
Usage: FILE FOLDER_OF_PROGRAMS FAULTY_TUTTI"""
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

FOLDER = FAULTY = None
ALL = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather", "scatter",
       "sendrecv", "hypercube"]
REDUCING = ["all_reduce", "reduce_scatter", "reduce"]
BLOCKS = ["all_gather", "alltoall", "alltoallv", "gather"]  # results of several parts
SMALL = ["-b", "64", "-e", "16K", "-f", "16", "-n", "2"]


def perf(name, *args, fault="", env=None, timeout=60):
    environment = dict(os.environ, **(env or {}))
    if fault:
        environment.update(TUTTI_TEST_FAULT=fault, LD_PRELOAD=FAULTY)
    return subprocess.run([os.path.join(FOLDER, f"{name}_perf"), *args], capture_output=True, text=True,
                          timeout=timeout, env=environment)


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def ring_plan(ranks):
    """MSCCL's XML of an AllReduce "mine" around a ring."""
    def step(number, kind, chunk):
        return (f'<step s="{number}" type="{kind}" srcbuf="i" srcoff="{chunk % ranks}" dstbuf="i" dstoff="{chunk % ranks}" '
                'cnt="1" depid="-1" deps="-1" hasdep="0"/>')

    gpus = ""
    for rank in range(ranks):
        kinds = ["s"] + ["rrs"] * (ranks - 2) + ["rrcs"] + ["rcs"] * (ranks - 2) + ["r"]
        steps = "".join(step(n, kind, rank - n) for n, kind in enumerate(kinds))
        gpus += (f'<gpu id="{rank}" i_chunks="{ranks}" o_chunks="0" s_chunks="0"><tb id="0" send="{(rank + 1) % ranks}" '
                 f'recv="{(rank - 1) % ranks}" chan="0">{steps}</tb></gpu>')
    return f'<algo name="mine" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allreduce" inplace="1">{gpus}</algo>'


def comment(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def until_seen(pattern, environment, stderr):
    """Runs a sweep without end until its stderr, which `stderr` reads, has the pattern; what it said."""
    reading, writing = stderr()
    started = subprocess.Popen([os.path.join(FOLDER, "all_reduce_perf"), "-t", "2", "-b", "64", "-e", "4K", "-f", "4", "-N", "0"],
                               stdout=subprocess.DEVNULL, stderr=writing, env=environment)
    os.close(writing)
    said = b""
    try:
        while not re.search(pattern, said):
            said += os.read(reading, 4096)
    finally:
        started.kill()
        started.wait()
        os.close(reading)
    return said


class Programs(unittest.TestCase):
    def test_a_long_sweep_says_how_far_it_is_where_somebody_looks(self):
        plain = {k: v for k, v in os.environ.items() if k != "TUTTI_TERMINAL"}
        self.assertIn(b"\x1b[K", until_seen(rb"\r\x1b\[K\d+ of 4 rows, \d+ s; now \d+ bytes of float", plain, pty.openpty))
        by_run = until_seen(rb"# \d+ of 4 rows, \d+ s; now \d+ bytes of float\n", plain | {"TUTTI_TERMINAL": "1"}, os.pipe)
        self.assertNotIn(b"\r", by_run)

    def test_all_are_right_on_every_type_operator_and_root(self):
        for name in ALL:
            with self.subTest(name):
                r = perf(name, "-t", "4", "-b", "2K", "-e", "2K", "-n", "1", "-w", "0", "-d", "all", "-o", "all")
                self.assertEqual((r.returncode, r.stderr), (0, ""), r.stdout[-2000:])
                self.assertIn("# Out of bounds values : 0 OK", r.stdout)
                self.assertGreaterEqual(len(rows(r.stdout)), 15)

    def test_all_are_right_on_new_data_in_every_call(self):
        for name in ALL:
            with self.subTest(name):  # the last timed call is checked as well
                r = perf(name, "-t", "4", *SMALL, "-n", "5", "--fresh")
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
                self.assertIn("# data: written anew before each timed call", r.stdout)
                self.assertEqual({row[8] for row in rows(r.stdout)} | {row[12] for row in rows(r.stdout)}, {"0"})

    def test_every_root_is_right(self):
        for name in ["broadcast", "reduce", "gather", "scatter"]:
            with self.subTest(name):
                r = perf(name, "-t", "3", *SMALL, "-r", "all")
                self.assertEqual(r.returncode, 0, r.stdout)
                self.assertEqual({row[4] for row in rows(r.stdout)}, {"0", "1", "2"})

    def test_odd_rank_counts_and_unaligned_sizes_are_right(self):
        for name in [n for n in ALL if n != "hypercube"]:
            with self.subTest(name):
                r = perf(name, "-t", "3", "-b", "0", "-e", "5001", "-i", "1667", "-n", "1", "-u", "3", "-c", "2")
                self.assertEqual(r.returncode, 0, r.stdout)
                self.assertEqual(len(rows(r.stdout)), 4)

    def test_a_single_rank_is_right(self):
        for name in ALL:
            with self.subTest(name):
                self.assertEqual(perf(name, *SMALL).returncode, 0)

    def test_several_ranks_per_thread(self):
        for name in ALL:
            with self.subTest(name):
                r = perf(name, "-t", "2", "-g", "2", "-m", "3", *SMALL)
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
                self.assertEqual(sum(l.startswith("#  Rank") for l in r.stdout.splitlines()), 4)

    def test_faults_are_caught(self):
        cases = [(n, f) for n in ALL for f in ("bit", "overrun", "stale") if not (n in ("sendrecv", "hypercube"))]
        cases += [(n, f) for n in REDUCING for f in ("lose", "double", "swap")] + [(n, "swap") for n in BLOCKS]
        for name, fault in cases:
            with self.subTest(name=name, fault=fault):
                r = perf(name, "-t", "4", *SMALL, fault=fault)
                self.assertEqual(r.returncode, 1, r.stdout)
                self.assertIn("FAILED", comment(r.stdout, "# Out of bounds values"))
                self.assertTrue(any(int(float(row[8])) > 0 for row in rows(r.stdout)), "out of place")
                self.assertTrue(any(int(float(row[12])) > 0 for row in rows(r.stdout)), "in place")

    def test_lost_contributions_are_caught_in_every_type_and_operator(self):
        r = perf("all_reduce", "-t", "4", "-b", "8K", "-e", "8K", "-n", "1", "-d", "all", "-o", "all", fault="lose")
        self.assertEqual([row for row in rows(r.stdout) if row[8] == "0" or row[12] == "0"], [])

    def test_without_check_wrong_data_is_not_noticed_and_says_so(self):
        r = perf("all_reduce", "-t", "2", *SMALL, "-c", "0", fault="bit")
        self.assertEqual(r.returncode, 0)
        self.assertEqual({row[8] for row in rows(r.stdout)}, {"N/A"})

    def test_an_error_of_the_library_ends_all_ranks(self):
        r = perf("all_reduce", "-t", "4", *SMALL, fault="differ")
        self.assertEqual(r.returncode, 3)
        self.assertIn("rank 1", r.stderr)
        self.assertIn("count 15", r.stderr)

    def test_what_was_expected_stands_behind_the_other_columns(self):
        for name in ALL:
            with self.subTest(name):
                last = rows(perf(name, "-t", "2", *SMALL).stdout)[-1]
                self.assertEqual(len(last), 15)
                self.assertGreater(float(last[13]), 0)
                self.assertRegex(last[14], r"^[a-z0-9-]+/(inline|slots|direct)/[1-9]$")
        r = perf("all_reduce", "-t", "2", *SMALL, env={"TUTTI_ALGO": "allreduce:ring", "TUTTI_PROTO": "slots"})
        self.assertEqual({row[14] for row in rows(r.stdout)}, {"ring/slots/1"})

    def test_copies_have_no_operator_and_only_rooted_ones_a_root(self):
        self.assertEqual({(r[3], r[4]) for r in rows(perf("all_gather", *SMALL).stdout)}, {("none", "-1")})
        self.assertEqual({(r[3], r[4]) for r in rows(perf("all_reduce", *SMALL).stdout)}, {("sum", "-1")})
        self.assertEqual({(r[3], r[4]) for r in rows(perf("broadcast", "-t", "2", "-r", "1", *SMALL).stdout)}, {("none", "1")})

    def test_a_wrong_root_and_a_wrong_rank_count_are_refused(self):
        self.assertIn("--root 2 is not below 2", perf("broadcast", "-t", "2", "-r", "2", *SMALL).stderr)
        self.assertIn("power of two", perf("hypercube", "-t", "3", *SMALL).stderr)

    def test_alltoallv_takes_a_matrix(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("0 1 2\n1 0 3\n0.5 1 1\n")
            f.flush()
            r = perf("alltoallv", "-t", "3", *SMALL, env={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": f.name})
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertEqual(rows(r.stdout)[0][9:13], ["N/A"] * 4)  # not symmetric: nothing in place
            r = perf("alltoallv", "-t", "2", *SMALL, env={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": f.name})
            self.assertIn("not one number for each pair", r.stderr)

    def test_groups(self):
        r = perf("all_reduce", "-t", "4", *SMALL, env={"NCCL_TESTS_SPLIT": "MOD 2"})
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([l.split()[4] for l in r.stdout.splitlines() if l.startswith("#  Rank")], ["0", "1", "0", "1"])

    def test_an_algorithm_that_does_not_fit_all_communicators_ends_none(self):
        # Threads are ranks of one communicator beside the process's own of one rank, and of groups.
        for algorithm in ["allreduce:torus2d", "allreduce:mine"]:
            with self.subTest(algorithm), tempfile.TemporaryDirectory() as folder:
                env = {"TUTTI_ALGO": algorithm}
                if algorithm.endswith("mine"):
                    env["TUTTI_PLAN_DIR"] = folder
                    with open(os.path.join(folder, "theirs.xml"), "w", encoding="utf-8") as f:
                        f.write(ring_plan(8))
                name = algorithm.split(":")[1]
                r = perf("all_reduce", "-t", "8", *SMALL, env=env | {"TUTTI_ALGO_STRICT": "1"})
                if "reads no plans" in r.stderr:
                    self.skipTest("no pugixml")
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                self.assertEqual({row[-1].split("/")[0] for row in rows(r.stdout)}, {name})
                r = perf("all_reduce", "-t", "8", *SMALL, env=env | {"TUTTI_TESTS_SPLIT": "DIV 5"})  # of 5 and 3
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("# Out of bounds values : 0 OK", r.stdout)
                for ranks in [5, 3]:
                    self.assertEqual(r.stderr.count(f"TUTTI_ALGO={name} does not serve allreduce of 64 bytes on {ranks} "
                                                    "ranks: it "), 1, r.stderr)

    def test_further_flags(self):
        r = perf("all_reduce", "-t", "2", *SMALL, "-I", "1", "-K", "1", "-S", "1", "-y", "0", "-R", "1", "-z", "1", "-C", "1",
                 "-a", "3", "-p", "0", "-M", "1", "-N", "2", "-T", "5")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual({len(row) for row in rows(r.stdout)}, {13 + 8 + 2 + 2})
        self.assertEqual(len(rows(r.stdout)), 2 * 3)
        self.assertIn("# Peak memory per process", r.stdout)
        self.assertIn("cputime", r.stdout)

    def test_bandwidth_that_is_too_low_fails(self):
        r = perf("all_reduce", "-t", "2", *SMALL, env={"NCCL_TESTS_MIN_BW": "100000"})
        self.assertEqual(r.returncode, 1)
        self.assertIn("FAILED", comment(r.stdout, "# Avg bus bandwidth"))

    def test_variables(self):
        # Known to the library too, which warns of names that nobody reads.
        r = perf("all_reduce", "-t", "2", *SMALL, env={"TUTTI_TESTS_MIN_BW": "100000"})
        self.assertEqual(r.returncode, 1)
        self.assertIn("FAILED", comment(r.stdout, "# Avg bus bandwidth"))
        self.assertEqual(r.stderr, "")
        for name, value, why in [("MIN_BW", "much", "is not a number of GB/s"), ("SPLIT", "MOD", "is not AND, OR"),
                                 ("SPLIT", "MOD 0", "is not AND, OR"), ("SPLIT_MASK", "xyz", "is not a hexadecimal"),
                                 ("ALLTOALLV_SPREAD", "1.5", "from 0 to 1"), ("MINBW", "1", "there are MIN_BW, SPLIT"),
                                 ("ALLTOALLV_MATRIX_FILE", "/nonexistent/m", "that can be read"),
                                 ("ALLTOALLV_MATRIX_SCALE", "x", "is not a number")]:
            r = perf("alltoallv", "-t", "2", *SMALL, env={"TUTTI_TESTS_" + name: value})
            self.assertEqual((r.returncode, r.stdout), (1, ""))
            self.assertIn("TUTTI_TESTS_" + name, r.stderr)
            self.assertIn(why, r.stderr)

    def test_version(self):
        r = perf("all_reduce", "--version")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"^all_reduce_perf \d+\.\d+\.\d+\n$")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            j, p = os.path.join(folder, "o.json"), os.path.join(folder, "p.svg")
            r = perf("all_reduce", "-t", "2", *SMALL, "-I", "1", "-J", j, "--plot", p)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(j) as f:
                record = json.load(f)
            self.assertEqual([row["size"] for row in record["results"]], [64, 1024, 16384])
            self.assertEqual(len(record["results"][0]["in_place_per_iter"]["times"]), 2)
            self.assertTrue(xml.etree.ElementTree.parse(p).getroot().tag.endswith("svg"))
            missing = os.path.join(folder, "missing", "o.json")
            r = perf("all_reduce", *SMALL, "-J", missing)
            self.assertEqual(r.returncode, 1)
            self.assertIn(f"cannot write {missing}", r.stderr)


if __name__ == "__main__":
    FOLDER, FAULTY = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
