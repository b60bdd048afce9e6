"""A rank that is stopped, or makes no more calls, is named by a warning while the others wait, and by their error at the
deadline.
usage: silence_test.py TUTTI_RUN DEATH_RANKS"""
import os
import re
import subprocess
import sys
import unittest

RUN = RANKS = None


def begin(how, ranks, odd, transports):
    environment = dict(os.environ, TUTTI_TIMEOUT_MS="7000", TUTTI_TRANSPORTS=transports, TUTTI_CALIBRATION="off")
    return subprocess.Popen([RUN, "-n", str(ranks), "--no-tag", "--grace", "9", "--timeout", "15", RANKS, str(odd), "50", how,
                             "joined"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


class Silence(unittest.TestCase):
    def test_silent_ranks_are_named_before_the_deadline(self):
        jobs = [("stop", 3, 1, "shm,self", r"rank 1 does not answer while rank \d waits in AllReduce number"),
                ("stop", 2, 0, "tcp,self", r"rank 0 does not answer while rank 1 waits in AllReduce number"),
                ("sleep", 3, 2, "tcp,self", r"rank 2 has not entered AllReduce number \d+ .*; it is in no call")]
        started = [begin(*job[:4]) for job in jobs]
        for (how, ranks, odd, transports, warning), job in zip(jobs, started):
            said = job.communicate(timeout=60)[0]
            with self.subTest(how=how, ranks=ranks, odd=odd, transports=transports):
                self.assertRegex(said, r"waiting for \d+ ms: " + warning)
                # One of each rank that waits; the silent one, set going again by the launcher's end, may wait for others.
                self.assertLess(len(re.findall(rf"waiting for \d+ ms: rank {odd} ", said)), ranks, said)
                for rank in set(range(ranks)) - {odd}:
                    self.assertRegex(said, rf"(?m)^rank {rank}: .*\brank {odd}\b")


if __name__ == "__main__":
    RUN, RANKS = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
