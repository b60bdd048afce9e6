"""Every rank of a job that cannot come up hears the true reason, and soon.
usage: reasons_test.py TUTTI_RUN PROGRAM     PROGRAM joins by tuttiCommInitEnv and prints why it cannot"""
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

RUN = PROGRAM = None
# Ranks that would only hear at their deadline hear nothing in time.
PATIENT = {"TUTTI_TIMEOUT_MS": "600000"}
SOON = 60
MINE = ("TUTTI_", "NCCL_", "PMI", "OMPI_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "MASTER_")


def environment(more):
    return {k: v for k, v in os.environ.items() if not k.startswith(MINE)} | {"TUTTI_CALIBRATION": "off"} | more


def by_run(n, common=None, ranks=None, before=""):
    """What each rank says that tutti-run has started, with variables for all and for some; before: a rank's shell commands."""
    exports = before + "".join(f"if [ $RANK = {rank} ]; then export {name}='{value}'; fi; "
                      for rank, variables in (ranks or {}).items() for name, value in variables.items())
    done = subprocess.run([RUN, "-n", str(n), "--grace", "30", "--tag-output", "--every-error", "sh", "-c", exports + 'exec "$0"', PROGRAM],
                          capture_output=True, text=True, timeout=SOON, env=environment(PATIENT | (common or {})))
    said = {rank: "" for rank in range(n)}
    for line in (done.stdout + done.stderr).splitlines():
        tagged = re.match(r"\[(\d+)\] (.*)", line)
        if tagged:
            said[int(tagged.group(1))] += tagged.group(2) + "\n"
    return said


def by_hand(ranks):
    """What each process says of those started with torchrun's variables: one dictionary each."""
    for _ in range(5):  # another program may have the port
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20_000, 30_000))}
        started = [subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env=environment(PATIENT | place | variables)) for variables in ranks]
        try:
            said = [process.communicate(timeout=SOON)[0] for process in started]
        finally:
            for process in started:
                process.kill()
        if not any("Address already in use" in text for text in said):
            break
    return said


def rank(number, size, **more):
    return {"RANK": str(number), "WORLD_SIZE": str(size)} | more


class Reasons(unittest.TestCase):
    def all_say(self, said, pattern):
        for who, text in said.items() if isinstance(said, dict) else enumerate(said):
            with self.subTest(process=who):
                self.assertRegex(text, pattern)

    def test_a_dump_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/missing/machine.xml"
            for transports in ("shm", "tcp"):
                said = by_run(3, {"TUTTI_TOPO_DUMP_FILE": path, "TUTTI_TRANSPORTS": transports})
                why = f"TUTTI_TOPO_DUMP_FILE: cannot write {path}: No such file"
                self.assertIn(f"tuttiCommInitEnv: {why}", said.pop(0))
                self.all_say(said, "rank 0 failed while ranks were joining: " + why)

    def test_a_value_that_one_rank_cannot_have(self):
        for name, value, why in [("TUTTI_SLOTS", "1", "TUTTI_SLOTS=1 is outside 2..64"),
                                 ("TUTTI_ALGO", "rng", "TUTTI_ALGO: no collective has an algorithm 'rng'"),
                                 ("TUTTI_TRACE", "/tmp/t%r", "TUTTI_TRACE=/tmp/t%r has no %c (communicator)"),
                                 ("TUTTI_TIMEOUT_MS", "soon", "TUTTI_TIMEOUT_MS='soon' is not a whole number"),
                                 ("TUTTI_SOCKET_IFNAME", "=nosuch0", "no network interface matches")]:
            for odd in (0, 1):
                with self.subTest(name=name, odd=odd):
                    said = by_run(3, ranks={odd: {name: value}})
                    self.assertIn(f"tuttiCommInitEnv: {why}", said.pop(odd))
                    self.all_say(said, f"rank {odd} cannot join: {re.escape(why)}")

    def test_a_value_that_the_rank_cannot_have_at_whose_place_the_others_meet(self):
        for odd in (0, 1):
            ranks = [rank(r, 3, **({"TUTTI_NSOCKETS": "none"} if r == odd else {})) for r in range(3)]
            said = by_hand(ranks)
            self.assertIn("tuttiCommInitEnv: TUTTI_NSOCKETS='none' is not a whole number", said.pop(odd))
            self.all_say(said, f"rank {odd} cannot join: TUTTI_NSOCKETS='none' is not a whole number")

    def test_a_rank_that_ends_before_it_comes(self):
        for odd, how, end in ((0, "ended with status 0", "exit 0"), (1, "ended with status 3", "exit 3"),
                              (2, r"was killed by signal 9 \(Killed\)", "kill -9 $$")):
            with self.subTest(odd=odd, how=how):
                said = by_run(3, before=f"if [ $RANK = {odd} ]; then {end}; fi; ")
                self.assertEqual(said.pop(odd), "")
                self.all_say(said, rf"tuttiCommInitEnv: .*rank {odd} {how} before it had met the other ranks, says its launcher")

    def test_a_rank_that_never_comes(self):
        limit = {"TUTTI_TIMEOUT_MS": "8000"}

        def hand(*numbers, **more):
            return by_hand([rank(r, 3, **limit, **more) for r in numbers])

        def run():
            done = subprocess.run([RUN, "-n", "3", "--every-error", "sh", "-c", '[ $RANK = 1 ] && exec sleep 60; exec "$0"', PROGRAM],
                                  capture_output=True, text=True, timeout=SOON, env=environment(limit))
            return done.stdout + done.stderr

        with concurrent.futures.ThreadPoolExecutor() as pool:
            jobs = {"launched": pool.submit(run), "one": pool.submit(hand, 0, 2), "two": pool.submit(hand, 0),
                    "place": pool.submit(hand, 1, 2), "secret": pool.submit(hand, 1, 2, TUTTI_SECRET="a")}
            said = {name: job.result() for name, job in jobs.items()}
        what = r"rank 1 has not come to the rendezvous {} \(2 of 3 ranks are here\); check that every rank was started"
        # The process that opens the rendezvous warns: the launcher, or rank 0.
        self.assertEqual(len(re.findall(what.format("within 5 s"), said["launched"])), 1, said["launched"])
        self.assertEqual(len(re.findall("tuttiCommInitEnv: " + what.format("in time"), said["launched"])), 2, said["launched"])
        self.assertRegex(said["one"][0], what.format("within 5 s"))
        self.all_say(said["one"], "tuttiCommInitEnv: " + what.format("in time") +
                     r".*; rank [02] has waited [\d.]+ s: raise TUTTI_TIMEOUT_MS")
        self.assertRegex(said["two"][0], r"ranks 1 and 2 have not come to the rendezvous in time \(1 of 3 ranks are here\)")
        for when in ("within 5 s", r"within \d+(?:\.\d)? s"):
            self.all_say(said["place"], rf"got no answer from the rendezvous at 127.0.0.1:\d+ {when} .*check that rank 0 runs")
            self.all_say(said["secret"], rf"rank [12] got no answer from the rendezvous at 127.0.0.1:\d+ {when} "
                         r"\(nobody listens .*; check that rank 0, which opens it, was started")

    def test_a_machine_that_one_rank_is_told_of(self):
        said = by_run(2, ranks={1: {"TUTTI_TOPO_FILE": "/nonexistent"}})
        self.all_say(said, "rank 1 has TUTTI_TOPO_FILE=/nonexistent, rank 0 of the same host has no TUTTI_TOPO_FILE")
        said = by_run(2, {"TUTTI_TOPO_FILE": "/nonexistent"})
        self.all_say(said, "rank 0: TUTTI_TOPO_FILE=/nonexistent: cannot read")

    def test_settings_that_differ(self):
        for name, value in (("TUTTI_JOIN", "1"), ("TUTTI_SLOTS", "8"), ("TUTTI_PROTO", "slots"),
                            ("TUTTI_SLOT_BYTES", "64K"), ("TUTTI_NSOCKETS", "3")):
            self.all_say(by_run(2, ranks={1: {name: value}}), f"has other settings than rank .*{name}={value} ")

    def test_two_processes_that_are_the_same_rank(self):
        for same in (0, 1):
            # Of three ranks one does not come, so that nobody is done before both are there.
            said = by_hand([rank(same, 3), rank(same, 3)] + ([] if same == 0 else [rank(0, 3)]))
            self.all_say(said, "two processes open the rendezvous at port \\d+, which only rank 0 does: give every rank"
                               if same == 0 else "two joined as rank 1: .*give every rank its own number")

    def test_different_numbers_of_ranks(self):
        self.all_say(by_hand([rank(0, 2), rank(1, 3)]),
                     r"rank \d joins a communicator of \d ranks, but rank \d one of \d; give all ranks the same nRanks")

    def test_different_secrets(self):
        said = by_hand([rank(0, 2, TUTTI_SECRET="a", TUTTI_TIMEOUT_MS="5000"), rank(1, 2, TUTTI_SECRET="b")])
        self.assertRegex(said[1], "rank 1 has another secret than the rendezvous at 127.0.0.1:.*set TUTTI_SECRET alike")
        self.assertRegex(said[0], "rank 1 has not come .* one that calls itself rank 1 came with another secret: set TUTTI")

    def test_two_of_rank_0_with_different_secrets(self):
        said = by_hand([rank(0, 2, TUTTI_SECRET=secret, TUTTI_TIMEOUT_MS="6000") for secret in "ab"])
        self.assertTrue(any("is rank 0 there twice, with different values of TUTTI_SECRET?" in text for text in said), said)

    def test_a_home_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            home = folder + "/missing"
            said = by_run(1, {"HOME": home, "XDG_CACHE_HOME": "", "TUTTI_CALIBRATION": "", "TUTTI_LOG": "info"})[0]
            self.assertEqual(said.count(f"there is no folder {home} (HOME"), 1, said)
            self.assertIn("sum 1", said)
            self.assertFalse(os.path.exists(home))
            quiet = by_run(1, {"HOME": home, "XDG_CACHE_HOME": "", "TUTTI_CALIBRATION": ""})[0]
            self.assertNotIn("there is no folder", quiet)


if __name__ == "__main__":
    RUN, PROGRAM = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
