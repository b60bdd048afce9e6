#!/usr/bin/env python3
"""tutti-top beside running jobs.
usage: top_test.py TUTTI_RUN DIAGNOSIS_RANKS TUTTI_TOP"""
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

RUN, RANKS, TOP = sys.argv[1:4]


def start(runtime, n, what, odd=1, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}
    environment |= {"TUTTI_CALIBRATION": "off", "XDG_RUNTIME_DIR": runtime} | variables
    return subprocess.Popen([RUN, "-n", str(n), "--no-tag", RANKS, what, str(odd)], text=True, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def top(runtime, *args):
    done = subprocess.run([TOP, *args], capture_output=True, text=True, timeout=60, env=os.environ | {"XDG_RUNTIME_DIR": runtime})
    return done.returncode, done.stdout + done.stderr


def until(look, pattern):
    """The text of look(), once it matches."""
    for _ in range(600):
        text = look()
        if re.search(pattern, text):
            return text
        time.sleep(0.05)
    raise AssertionError(f"nothing matches {pattern}:\n{text}")


def ask(port, *lines):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as conversation:
        file = conversation.makefile("rw", newline="\n")
        answers = []
        for line in lines:
            file.write(line + "\n")
            file.flush()
            answers.append(file.read() if "STATUS" in line else file.readline())
        return answers


class Top(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runtime, self.jobs = folder.name, []

    def tearDown(self):
        for job in self.jobs:
            job.terminate()
            job.communicate(timeout=60)

    def job(self, *args, **variables):
        self.jobs.append(start(self.runtime, *args, **variables))
        return self.jobs[-1]

    def test_ranks_that_wait_and_whom_for(self):
        self.job(3, "missing", 2)
        text = until(lambda: top(self.runtime, "--once")[1], r"waits for rank 2(.|\n)*waits for rank 2")
        self.assertRegex(text, r"communicator [0-9a-f]{16}, 3 ranks")
        for rank in (0, 1):
            self.assertRegex(text, rf"(?m)^ +{rank} +\d+ +6 .*AllReduce number 6 \(count 32, float, sum\) for \d+\.\d s, waits for rank 2$")
        self.assertRegex(text, r"(?m)^ +2 +\d+ +5 .*between calls$")
        code, metrics = top(self.runtime, "--prometheus")
        self.assertEqual(code, 0)
        self.assertRegex(metrics, r'tutti_calls_total\{communicator="[0-9a-f]+",name="",rank="2"\} 5\n')
        self.assertRegex(metrics, r'tutti_waiting_on_rank\{[^}]*rank="0"\} 2\n')

    def test_a_stopped_rank_does_not_answer_and_others_do(self):
        job = self.job(2, "signal")
        self.assertEqual([job.stdout.readline() for _ in range(2)], ["joined\n"] * 2)
        text = until(lambda: top(self.runtime, "--once")[1], "(?m)^ +1 .*between calls")
        pid = int(re.search(r"(?m)^ +1 +(\d+)", text)[1])
        os.kill(pid, signal.SIGSTOP)
        try:
            text = until(lambda: top(self.runtime, "--once")[1], "(?m)^ +1 .*does not answer")
            self.assertRegex(text, "(?m)^ +0 .*between calls")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertNotIn("failed", until(lambda: top(self.runtime, "--once")[1], "(?m)^ +1 .*between calls"))

    def test_prometheus_and_ncclras_are_served(self):
        job = self.job(2, "signal")
        self.assertEqual([job.stdout.readline() for _ in range(2)], ["joined\n"] * 2)
        server = subprocess.Popen([TOP, "--serve", "0"], stdout=subprocess.PIPE, text=True, env=os.environ | {"XDG_RUNTIME_DIR": self.runtime})
        try:
            port = int(re.fullmatch(r"serving at port (\d+)\n", server.stdout.readline())[1])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                self.assertIn("version=0.0.4", page.headers["Content-Type"])
                self.assertRegex(page.read().decode(), r'tutti_collectives_total\{[^}]*rank="1"\} 5\n')
            hello, status = ask(port, "CLIENT PROTOCOL 2", "VERBOSE STATUS")
            self.assertEqual(hello, "SERVER PROTOCOL 2\n")
            self.assertRegex(status, r"Rank 1 \(process \d+\): 5 operations launched")
            ok, status = ask(port, "SET FORMAT json", "STATUS")
            self.assertEqual((ok, json.loads(status)["communicators"][0]["size"]), ("OK\n", 2))
        finally:
            server.terminate()
            server.communicate(timeout=30)

    def test_the_socket_is_the_users_alone_and_goes_with_the_job(self):
        self.assertEqual(top(self.runtime, "--once")[0], 1)
        job = self.job(2, "signal")
        self.assertEqual([job.stdout.readline() for _ in range(2)], ["joined\n"] * 2)
        folder = pathlib.Path(self.runtime, "tutti")
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        left, = folder.glob("*.sock")
        os.kill(int(left.stem), signal.SIGKILL)  # it cannot clean up
        job.communicate(timeout=60)
        self.assertEqual(top(self.runtime, "--once")[0], 1)
        off = self.job(2, "signal", TUTTI_MONITOR="0")
        self.assertEqual([off.stdout.readline() for _ in range(2)], ["joined\n"] * 2)
        self.assertEqual(list(folder.glob("*.sock")), [left])
        subprocess.run([RUN, "-n", "2", "--no-tag", RANKS, "ask", "0", self.runtime], check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | {"XDG_RUNTIME_DIR": self.runtime, "TUTTI_CALIBRATION": "off"}, timeout=60)
        self.assertEqual(list(folder.glob("*.sock")), [])  # the next job has cleaned up, and is gone itself

    def test_a_folder_of_others_is_not_used_and_no_job_fails_for_it(self):
        folder = pathlib.Path(self.runtime, "tutti")
        folder.mkdir()
        folder.chmod(0o777)
        job = self.job(2, "signal", TUTTI_LOG="info")
        until(lambda: job.stdout.readline(), "is not a folder of this user's alone")
        self.assertEqual(list(folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
