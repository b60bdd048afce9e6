"""The *_perf programs as jobs of several processes: tutti-run and mpirun, every collective, type, operator, transport.
Usage: FILE TUTTI_RUN FOLDER_OF_PROGRAMS FAULTY_TUTTI"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN = FOLDER = FAULTY = None
ALL = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather", "scatter",
       "sendrecv", "hypercube"]
ROOTED = ["broadcast", "reduce", "gather", "scatter"]
SMALL = ["-b", "64", "-e", "256K", "-f", "64", "-n", "2", "-c", "1"]


def program(name):
    return os.path.join(FOLDER, f"{name}_perf")


def start(command, env):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ, **(env or {})))


def job(ranks, name, *args, env=None, launch=None):
    """Runs the program and returns (its result, what it wrote as JSON or None)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        result = start([*(launch or [RUN, "-n", str(ranks)]), program(name), *args, "-J", path], env)
        if not os.path.exists(path):
            return result, None
        with open(path) as f:
            return result, json.load(f)


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def rank_lines(text):
    return [line for line in text.splitlines() if line.startswith("#  Rank")]


class Jobs(unittest.TestCase):
    def check(self, ranks, name, *args, **kw):
        result, record = job(ranks, name, *args, **kw)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        self.assertIn("# Out of bounds values : 0 OK", result.stdout)
        self.assertIsNotNone(record)
        self.assertEqual(record["out_of_bounds"], {"count": 0, "okay": True})
        self.assertEqual(record["errors"], [])
        self.compare(rows(result.stdout), record["results"])
        return result.stdout, record

    def compare(self, table, results):
        """The JSON says what the table says."""
        self.assertGreater(len(table), 0)
        self.assertEqual(len(table), len(results))
        for row, r in zip(table, results):
            self.assertEqual(row[:5], [str(r["size"]), str(r["count"]), r["type"], r["redop"], str(r["root"])])
            second = 13 if "out_of_place_per_iter" in r else 9
            for at, placement in [(5, r["out_of_place"]), (second, r["in_place"])]:
                if placement is None:
                    self.assertEqual(row[at:at + 4], ["N/A"] * 4)
                    continue
                time = placement.get("time", placement.get("cpu_time"))
                for text, value in zip(row[at:at + 3], [time, placement["alg_bw"], placement["bus_bw"]]):
                    self.assertAlmostEqual(float(text), value, delta=max(0.006, 0.06 * value))
                self.assertEqual(row[at + 3], str(placement["nwrong"]))
            self.assertAlmostEqual(float(row[-2]), r["expected"]["time"], delta=max(0.006, 0.06 * r["expected"]["time"]))
            self.assertEqual(row[-1], "{algorithm}/{protocol}/{channels}".format(**r["expected"]))

    def test_large_messages_that_peers_read_or_cannot_read(self):
        large = ["-b", "3000001", "-e", "6000001", "-i", "3000000", "-d", "uint8", "-n", "2", "-w", "1", "-c", "1"]
        for name in ["all_gather", "alltoall", "broadcast", "gather", "scatter"]:
            for cma, slots in [("1", "4"), ("0", "4"), ("0", "2")]:
                env = {"TUTTI_PROTO": "direct", "TUTTI_CMA": cma, "TUTTI_SLOTS": slots}
                with self.subTest(name=name, **env):
                    self.check(3, name, *large, env=env)

    def test_every_program_with_two_and_three_processes(self):
        for ranks in (2, 3):
            for name in ALL:
                if name == "hypercube" and ranks == 3:
                    continue  # needs a power of two
                with self.subTest(name=name, ranks=ranks):
                    text, record = self.check(ranks, name, *SMALL)
                    self.assertEqual(len(rank_lines(text)), ranks)
                    pids = {d["pid"] for d in record["config"]["devices"]}
                    self.assertEqual(len(pids), ranks)

    def test_every_type_operator_and_root(self):
        for name in ALL:
            with self.subTest(name):
                roots = ["-r", "all"] if name in ROOTED else []
                text, _ = self.check(2, name, "-b", "96", "-e", "96", "-n", "1", "-w", "0", "-d", "all", "-o", "all", *roots)
                self.assertGreaterEqual(len({row[2] for row in rows(text)}), 15)
                if roots:
                    self.assertEqual({row[4] for row in rows(text)}, {"0", "1"})

    def test_threads_and_several_ranks_of_a_thread_in_every_process(self):
        for flags, ranks in [(["-t", "2"], 4), (["-g", "2"], 4), (["-t", "2", "-g", "2"], 8)]:
            for name in ("all_reduce", "alltoallv", "sendrecv", "hypercube"):
                with self.subTest(name=name, flags=flags):
                    text, _ = self.check(2, name, *SMALL, *flags)
                    self.assertEqual(len(rank_lines(text)), ranks)

    def test_flags_that_change_how_calls_are_made(self):
        for flags in (["-R", "1"], ["-y", "0"], ["-m", "3"], ["-z", "1"], ["-u", "3"], ["-I", "1"], ["-N", "2"], ["-C", "1"],
                      ["-p", "0"], ["-a", "2"], ["-G", "0"], ["-S", "1", "-M", "1"]):
            for name in ("all_reduce", "gather"):
                with self.subTest(name=name, flags=flags):
                    self.check(3, name, *SMALL, *flags)

    def test_tcp_alone_and_shared_memory_alone(self):
        for transports in ("tcp,self", "shm,self"):
            for name in ALL:
                with self.subTest(name=name, transports=transports):
                    self.check(2, name, *SMALL, env={"TUTTI_TRANSPORTS": transports})

    def test_groups_of_ranks(self):
        text, _ = self.check(3, "all_reduce", *SMALL, env={"TUTTI_TESTS_SPLIT": "MOD 2"})
        self.assertEqual([line.split()[4] for line in rank_lines(text)], ["0", "1", "0"])

    def test_wrong_results_fail_the_job(self):
        for name in [n for n in ALL if n not in ("sendrecv", "hypercube")]:
            with self.subTest(name):
                result, record = job(2, name, *SMALL, env={"LD_PRELOAD": FAULTY, "TUTTI_TEST_FAULT": "bit"})
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertRegex(result.stdout, r"# Out of bounds values : [1-9]\d* FAILED")
                self.assertFalse(record["out_of_bounds"]["okay"])
                self.compare(rows(result.stdout), record["results"])

    def test_ranks_that_differ_fail_the_job(self):
        result, _ = job(3, "all_reduce", *SMALL, env={"LD_PRELOAD": FAULTY, "TUTTI_TEST_FAULT": "differ"})
        self.assertEqual(result.returncode, 3)
        self.assertIn("rank 1", result.stderr)

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
        if "Open MPI" not in version:
            self.skipTest("mpirun is not Open MPI's")
        launch = ["mpirun", *(["--allow-run-as-root"] if os.getuid() == 0 else []), "--oversubscribe", "-n", "3"]
        for name in ("all_reduce", "alltoall", "broadcast"):
            with self.subTest(name):
                text, _ = self.check(3, name, *SMALL, launch=launch)
                self.assertEqual(len(rank_lines(text)), 3)


if __name__ == "__main__":
    RUN, FOLDER, FAULTY = (sys.argv.pop(1) for _ in range(3))
    unittest.main(argv=sys.argv[:1], verbosity=2)
