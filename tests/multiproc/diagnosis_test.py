#!/usr/bin/env python3
"""Jobs that go wrong in known ways, and what tutti-trace says of the records that they leave.
usage: diagnosis_test.py TUTTI_RUN DIAGNOSIS_RANKS TUTTI_TRACE"""
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUN, RANKS, TRACE = sys.argv[1:4]


class Folder(tempfile.TemporaryDirectory):
    def files(self, end):
        return sorted(pathlib.Path(self.name).glob("*" + end))


def start(n, what, odd=1, folder="", **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}
    environment |= {"TUTTI_CALIBRATION": "off"} | variables
    return subprocess.Popen([RUN, "-n", str(n), "--no-tag", "--grace", "3", RANKS, what, str(odd), folder], text=True, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(*args, **variables):
    job = start(*args, **variables)
    said = job.communicate(timeout=90)[0]
    return job.returncode, said


def trace(*args):
    done = subprocess.run([TRACE, *map(str, args)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def verdict(folder, *args):
    """(exit status, the verdict on the only communicator)"""
    status, text = trace(folder, "--json", *args)
    found = json.loads(text)["communicators"]
    assert len(found) == 1, text
    return status, found[0]


class Diagnosis(unittest.TestCase):
    def after(self, n, what, odd=1, **variables):
        """The verdict on a job that went wrong, by the dumps of ranks that failed."""
        with Folder() as folder:
            status, said = run(n, what, odd, TUTTI_DUMP=folder, **variables)
            self.assertNotEqual(status, 0, said)
            code, found = verdict(folder)
            self.assertEqual(code, 1, found)
            return found

    def test_a_rank_that_stays_away_is_behind(self):
        for transports in ("shm", "tcp"):
            found = self.after(3, "missing", 2, TUTTI_TIMEOUT_MS="1500", TUTTI_TRANSPORTS="self," + transports)
            self.assertEqual((found["finding"], found["culprits"], found["missing"]), ("behind", [2], []), found)
            self.assertRegex(found["summary"], r"rank 2 is behind: ranks 0 and 1 wait in AllReduce number 6 \(count 32, float, sum\)")
            self.assertRegex("\n".join(found["waits"]), "rank 2: its newest call is AllReduce number 5 .*, which is over")

    def test_a_rank_that_was_killed_has_no_dump_but_a_trace(self):
        found = self.after(3, "die", 1)
        # The others hear of it in a call, or before they make it.
        self.assertIn(found["finding"], ("missing", "failed"), found)
        self.assertEqual(found["culprits"], [1], found)
        with Folder() as folder:
            run(3, "die", 1, TUTTI_TRACE=folder, TUTTI_RECORD_CALLS="256")
            found = verdict(folder)[1]
            self.assertIn(found["finding"], ("behind", "failed", "waiting"), found)
            self.assertEqual((found["culprits"], found["missing"]), ([1], []), found)

    def test_ranks_that_differ(self):
        found = self.after(3, "count", 1)
        self.assertEqual((found["finding"], found["culprits"]), ("different", [1]), found)
        self.assertRegex(found["summary"], r"number 6: .*rank 1 made AllReduce number 6 \(count 31, float, sum\)")
        found = self.after(3, "root", 2)
        self.assertEqual((found["finding"], found["culprits"]), ("different", [2]), found)
        self.assertRegex(found["summary"], r"rank 2 made Broadcast number 6 \(count 32, float, root 1\)")

    def test_messages(self):
        found = self.after(3, "cycle", TUTTI_TIMEOUT_MS="1500")
        self.assertEqual((found["finding"], found["culprits"]), ("unmatched", [0, 1, 2]), found)
        self.assertIn("cycle: 0 for 1, 1 for 2, 2 for 0", found["summary"])
        found = self.after(2, "message", 1, TUTTI_TIMEOUT_MS="3000")
        self.assertEqual((found["finding"], found["culprits"]), ("unmatched", [0, 1]), found)
        self.assertIn("rank 0 sends (count 8, float), rank 1 receives (count 9, float)", found["summary"])

    def test_a_signal_and_the_program_ask_for_records(self):
        with Folder() as folder:
            job = start(2, "signal", TUTTI_DUMP=folder, TUTTI_DUMP_SIGNAL="USR2")
            self.assertEqual([job.stdout.readline() for _ in range(2)], ["joined\n"] * 2)
            job.send_signal(signal.SIGUSR2)  # tutti-run hands it on
            for _ in range(3000):
                if len(list(pathlib.Path(folder).glob("*.dump"))) == 2:
                    break
                time.sleep(0.01)
            job.terminate()
            job.communicate(timeout=60)
            code, found = verdict(folder)
            self.assertEqual((code, found["finding"]), (0, "well"), found)
        with Folder() as folder:
            status, said = run(2, "ask", 0, folder)
            self.assertEqual(status, 0, said)
            self.assertEqual(verdict(folder)[1]["finding"], "well")

    def test_a_trace_becomes_a_timeline_and_files_for_pytorch(self):
        with Folder() as folder:
            self.assertEqual(run(3, "ask", 0, folder, TUTTI_TRACE=folder + "/t", TUTTI_RECORD_CALLS="300")[0], 0)
            chrome, torch = folder + "/run.json", folder + "/fr"
            code, said = trace(folder + "/t", "--chrome", chrome, "--torch", torch, "--simulate", "nodes 3; machine core:1 nic:1x1")
            self.assertEqual(code, 0, said)
            events = json.loads(pathlib.Path(chrome).read_text())["traceEvents"]
            calls = [e for e in events if e.get("cat") == "collective"]
            self.assertEqual([e["args"]["number"] for e in calls], [1, 2, 3, 4, 5] * 3)
            self.assertTrue(all(e["ts"] >= 0 and e["dur"] >= 0 and e["args"]["algorithm"] for e in calls))
            self.assertEqual(len([e for e in events if e.get("cat") == "simulated"]), 5)
            for rank in range(3):
                with open(f"{torch}/rank_{rank}", "rb") as file:
                    dump = pickle.load(file)
                self.assertEqual(dump["pg_config"]["0"], {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"})
                self.assertEqual([e["collective_seq_id"] for e in dump["entries"]], [1, 2, 3, 4, 5])
                first = dump["entries"][0]
                self.assertEqual((first["profiling_name"], first["process_group"], first["state"], first["retired"], first["input_sizes"],
                                  first["input_dtypes"]), ("nccl:all_reduce", ("0", "default_pg"), "completed", True, [[64]], ["Float"]))
                self.assertLessEqual(abs(first["time_created_ns"] / 1e9 - time.time()), 3600)

    def test_files_that_cannot_be_used(self):
        with Folder() as folder:
            self.assertEqual(trace(folder), (2, f"tutti-trace: the folder {folder} has no *.trace nor *.dump: "
                                                "TUTTI_TRACE or TUTTI_DUMP makes them\n"))
            self.assertEqual(trace("--help")[0], 0)
            self.assertEqual(trace()[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
