"""A rank that is stopped, or makes no more calls, is named by a warning while the others wait, and by their error at the
deadline; so is one that does not come to a call of all ranks.
usage: silence_test.py TUTTI_RUN DEATH_RANKS ABSENT_RANKS"""
import os
import re
import subprocess
import sys
import unittest

RUN = RANKS = ABSENT = None
# Ranks that have no shared memory also compare, between their calls, what these took.
CALL = r"All(Reduce number|Gather number \d+ \(.*, the library's own\))"


def begin(how, ranks, odd, transports):
    environment = dict(os.environ, TUTTI_TIMEOUT_MS="7000", TUTTI_TRANSPORTS=transports, TUTTI_CALIBRATION="off")
    return subprocess.Popen([RUN, "-n", str(ranks), "--no-tag", "--grace", "9", "--timeout", "15", RANKS, str(odd), "50", how,
                             "joined"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


class Silence(unittest.TestCase):
    def test_silent_ranks_are_named_before_the_deadline(self):
        jobs = [("stop", 3, 1, "shm,self", r"rank 1 does not answer while rank \d waits in AllReduce number"),
                ("stop", 2, 0, "tcp,self", r"rank 0 does not answer while rank 1 waits in " + CALL),
                ("sleep", 3, 2, "tcp,self", r"rank 2 has not entered " + CALL + ".*; it is in no call")]
        started = [begin(*job[:4]) for job in jobs]
        for (how, ranks, odd, transports, warning), job in zip(jobs, started):
            said = job.communicate(timeout=60)[0]
            with self.subTest(how=how, ranks=ranks, odd=odd, transports=transports):
                self.assertRegex(said, r"waiting for \d+ ms: " + warning)
                # One of each rank that waits; the silent one, set going again by the launcher's end, may wait for others.
                self.assertLess(len(re.findall(rf"waiting for \d+ ms: rank {odd} ", said)), ranks, said)
                for rank in set(range(ranks)) - {odd}:
                    self.assertRegex(said, rf"(?m)^rank {rank}: .*\brank {odd}\b")

    def test_ranks_that_do_not_come_to_a_call_are_named(self):
        late = r"waiting for \d+ ms: rank {} has not entered {} in which rank \d waits for it; it is in no call"
        absent = r"rank {} has not entered {} in which rank \d waits for it; it is in no call .*find what keeps it"
        end = "tuttiCommDestroy or tuttiCommFinalize"
        survivors = r"rank \d of \d waited {} for the agreement of survivors, and for rank {}; all that live .* must call"
        jobs = [("split", 3, 1, late.format(1, "tuttiCommSplit"), absent.format(1, "tuttiCommSplit")),
                ("split", 2, 0, late.format(0, "tuttiCommSplit"), absent.format(0, "tuttiCommSplit")),
                ("destroy", 3, 2, late.format(2, end), absent.format(2, end)),
                ("shrink", 4, 2, survivors.format("5 s so far", 2), survivors.format("until its deadline", 2)),
                ("shrink", 3, 0, survivors.format("5 s so far", 0), survivors.format("until its deadline", 0)),
                ("grow", 2, 1, r"rank 2 has not come to the rendezvous within 5 s \(2 of 3 ranks are here\); check that",
                 r"rank 2 has not come to the rendezvous in time \(2 of 3 ranks are here\); check that every rank was started")]
        environment = dict(os.environ, TUTTI_TIMEOUT_MS="8000", TUTTI_CALIBRATION="off")
        started = [subprocess.Popen([RUN, "-n", str(ranks), "--no-tag", "--every-error", "--grace", "15", ABSENT, call, str(odd)],
                                    env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for call, ranks, odd, _, _ in jobs]
        for (call, ranks, odd, warning, error), job in zip(jobs, started):
            said = job.communicate(timeout=100)[0]
            with self.subTest(call=call, ranks=ranks, odd=odd):
                self.assertRegex(said, warning)
                for rank in set(range(ranks)) - (set() if call == "grow" else {odd}):
                    self.assertRegex(said, rf"(?m)^rank {rank}: .*{error}")


if __name__ == "__main__":
    RUN, RANKS, ABSENT = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
