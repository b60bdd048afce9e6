#!/usr/bin/env python3
"""Limits of a process, and strangers who want what it has: limits_test.py TUTTI_RUN EXAMPLE FLOODED."""
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

RUN, EXAMPLE, FLOODED = sys.argv[1:4]
DESCRIPTORS = 300


def limited(which, most):
    return lambda: resource.setrlimit(which, (most, most))


def settings(**more):
    return {**os.environ, "TUTTI_CALIBRATION": "off", **more}


def descendants(pid):
    """All processes below one, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
                parents[int(entry.name)] = int(text.rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        below = [child for child, parent in parents.items() if parent == one]
        found += below
        todo += below
    return found


def listening(pid):
    """Addresses (of IPv4) that a process listens on, by its sockets' inodes."""
    inodes = set()
    try:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(fd)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return []
    fields = [line.split() for line in lines]
    places = [f[1].split(":") for f in fields if f[3] == "0A" and f[9] in inodes]
    return [(socket.inet_ntoa(int(address, 16).to_bytes(4, sys.byteorder)), int(port, 16)) for address, port in places]


def flood(job, counted, enough):
    """Dials all places of the job's processes, and keeps what is taken, until the job is over, which a file allows."""
    held = []
    while job.poll() is None:
        for place in [place for pid in descendants(job.pid) for place in listening(pid)]:
            for _ in range(100):
                stranger = socket.socket()
                stranger.settimeout(0.2)
                try:
                    stranger.connect(place)
                    held.append(stranger)
                    counted[0] += 1
                except OSError:
                    stranger.close()
        if counted[0] > 2 * DESCRIPTORS:
            enough.touch()
        time.sleep(0.01)
        while len(held) > 3000:
            held.pop(0).close()
    for stranger in held:
        stranger.close()


class Limits(unittest.TestCase):
    def run_limited(self, which, most, program, **more):
        return subprocess.run([RUN, "-n", "2", program], env=settings(**more), preexec_fn=limited(which, most),
                              capture_output=True, text=True, timeout=60)

    def test_files_that_may_not_grow_are_an_error_that_says_so(self):
        done = self.run_limited(resource.RLIMIT_FSIZE, 4096, EXAMPLE, TUTTI_TRANSPORTS="shm")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ulimit -f", done.stderr)
        self.assertNotIn("signal", done.stderr)

    def test_what_needs_no_such_file_goes_on(self):
        done = self.run_limited(resource.RLIMIT_FSIZE, 4096, EXAMPLE, TUTTI_TRANSPORTS="tcp")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_figures_that_cannot_be_kept_end_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_limited(resource.RLIMIT_FSIZE, 16, EXAMPLE, TUTTI_TRANSPORTS="tcp",
                                    TUTTI_CALIBRATION=f"{folder}/figures")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("are not kept", done.stderr)

    def test_a_busy_machine_is_measured_within_the_deadline(self):
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4 * os.cpu_count())]
        self.addCleanup(lambda: [one.wait() for one in busy])
        self.addCleanup(lambda: [one.kill() for one in busy])
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder, "figures")
            done = subprocess.run([RUN, "-n", "2", EXAMPLE], capture_output=True, text=True, timeout=100,
                                  env=settings(TUTTI_CALIBRATION=str(figures), TUTTI_TIMEOUT_MS="5000"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(figures.exists(), done.stderr)

    def test_strangers_take_no_descriptors_from_a_job(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        enough = Path(folder.name) / "enough"
        job = subprocess.Popen([RUN, "-n", "3", FLOODED, str(enough)], env=settings(), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=limited(resource.RLIMIT_NOFILE, DESCRIPTORS))
        self.addCleanup(job.kill)
        came_up = threading.Timer(120, job.kill)
        came_up.start()
        self.assertEqual([job.stdout.readline().strip()[-2:] for _ in range(3)], ["up"] * 3)
        came_up.cancel()
        counted = [0]
        flooding = threading.Thread(target=flood, args=(job, counted, enough))
        flooding.start()
        output, errors = job.communicate(timeout=170)
        flooding.join()
        self.assertEqual(job.returncode, 0, errors[-3000:])
        self.assertGreater(counted[0], 2 * DESCRIPTORS, f"there was no flood: {errors[-3000:]}")
        said = [line for line in errors.splitlines() if "cannot accept" in line]
        self.assertLess(len(said), 20, errors[:3000])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
