"""perf/hosts/shaped: what interfaces count beside what plans send, and what it says of a folder that hosts cannot see."""
import os
import re
import subprocess
import sys
import unittest

import suite

SHAPED = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "perf", "hosts", "shaped")
LINE = re.compile(r"^(\w+) +(\d+) +(\d+) .* cable +(\d+) of at most +(\d+); all +(\d+), planned +(\d+),", re.M)


def run(*words):
    done = subprocess.run([sys.executable, SHAPED, *words], capture_output=True, text=True, timeout=suite.SECONDS)
    return done.returncode, done.stdout + done.stderr


class Shaped(unittest.TestCase):
    def test_cables_carry_what_plans_send(self):
        ops, size = ("allreduce", "allgather", "broadcast", "alltoall"), 256 * 1024
        status, text = run("oracle", "--build", suite.BUILD, "--hosts", "2", "--ranks", "2", "--rate", "1gbit", "--ops",
                           ",".join(ops), "--sizes", str(size), "--rounds", "1")
        self.assertEqual(status, 0, text)
        found = {op: [int(n) for n in numbers] for op, *numbers in LINE.findall(text)}
        self.assertEqual(sorted(found), sorted(ops), text)
        for op, (bytes_, ranks, busiest, _, counted, planned) in found.items():
            with self.subTest(op=op):
                self.assertEqual((bytes_, ranks), (size, 4))
                self.assertGreaterEqual(planned, size / 2, text)  # each host lacks half of what the others have
                self.assertGreaterEqual(counted, planned, text)
                self.assertLess(counted, 1.2 * planned, text)  # headers, barriers, a lost packet
                self.assertLessEqual(busiest, counted, text)

    def test_folders_that_hosts_cannot_see(self):
        status, text = run("oracle", "--build", "/tmp/nowhere")
        self.assertEqual(status, 1)
        self.assertIn("every host has a /tmp of its own: use a folder elsewhere", text)


if __name__ == "__main__":
    suite.main()
