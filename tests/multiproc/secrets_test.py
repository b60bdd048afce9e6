"""Who can join a job, where it listens, and what shows its secrets.
usage: secrets_test.py TUTTI_RUN TUTTI_INFO PROGRAM     PROGRAM joins by tuttiCommInitEnv and calls AllReduce"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

RUN = INFO = PROGRAM = None
MINE = ("TUTTI_", "NCCL_", "PMI", "OMPI_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_")
LIMIT = 60
NOBODY = 65534


def environment(more):
    return {k: v for k, v in os.environ.items() if not k.startswith(MINE)} | {"TUTTI_CALIBRATION": "off"} | more


def start(variables, user=None):
    return subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=user,
                            env=environment({"TUTTI_TIMEOUT_MS": "40000"} | variables))


def torchrun(rank, size, address="127.0.0.1", port=None, **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address,
            "MASTER_PORT": str(port or random.randrange(20_000, 30_000))} | more


def listening(pid):
    """Local addresses, in hexadecimal, that a process listens on by TCP."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            field = line.split()
            if field[3] == "0A" and field[9] in inodes:
                found.add(field[1].split(":")[0])
    return found


LOOPBACK = {"0100007F", "00000000000000000000000001000000"}


def awaited(process, look):
    """What look(pid) says, as soon as it says something."""
    until = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < until:
        found = look(process.pid)
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"nothing came: {process.communicate()[0] if process.poll() is not None else 'it runs'}")


class Secrets(unittest.TestCase):
    def finish(self, ranks, failing=False):
        said = []
        for rank in ranks:
            text = rank.communicate(timeout=LIMIT)[0]
            said.append(text)
            self.assertEqual(rank.returncode != 0, failing, text)
        return said

    def test_tutti_info_does_not_print_them(self):
        for name in ("TUTTI_SECRET", "TUTTI_UNIQUE_ID"):
            shown = subprocess.run([INFO, "--config"], capture_output=True, text=True, check=True,
                                   env=environment({name: "c0ffee"})).stdout
            self.assertIn("(set, not shown)", shown)
            self.assertNotIn("c0ffee", shown)

    def test_a_job_of_one_host_listens_there_alone(self):
        port = random.randrange(20_000, 30_000)
        ranks = []
        for rank in (0, 1):  # the place, and what ranks reach each other by
            ranks.append(start(torchrun(rank, 3, port=port)))
            self.assertLessEqual(awaited(ranks[-1], listening), LOOPBACK)
        self.finish([*ranks, start(torchrun(2, 3, port=port))])

    def test_so_does_tutti_run(self):
        job = subprocess.Popen([RUN, "-n", "2", "sleep", str(LIMIT)], stderr=subprocess.DEVNULL, env=environment({}))
        self.assertLessEqual(awaited(job, listening), LOOPBACK)
        job.terminate()
        job.wait(timeout=LIMIT)

    def test_a_place_that_others_may_reach_does_not_listen_everywhere_and_warns(self):
        address = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
        if not address:
            self.skipTest("this host has no address beyond loopback")
        port = random.randrange(20_000, 30_000)
        first = start(torchrun(0, 2, address[0], port))
        found = awaited(first, listening)
        self.assertFalse(found & {"00000000", "0" * 32}, found)
        second = start(torchrun(1, 2, address[0], port))
        said = self.finish([first, second])
        self.assertEqual(said[0].count("without a secret: whoever reaches that port can join this job"), 1, said[0])
        self.assertNotIn("without a secret", said[1])
        first = start(torchrun(0, 1, "0.0.0.0", port, TUTTI_SECRET="word"))
        self.assertNotIn("without a secret", self.finish([first])[0])

    def test_another_user_of_the_host_does_not_join(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        for variables in ({}, {"TUTTI_SECRET": "word"}):
            port = random.randrange(20_000, 30_000)
            # The ranks are nobody's, the intruder is nobody's neighbour.
            first = start(torchrun(0, 2, port=port, **variables), NOBODY)
            awaited(first, listening)
            intruder = start(torchrun(1, 2, port=port, TUTTI_TIMEOUT_MS="1500"), NOBODY - 1)
            refused = self.finish([intruder], failing=True)[0]
            self.assertRegex(refused, "no process of user 65533 serves it on this host|"
                                      "another secret than the rendezvous")
            second = start(torchrun(1, 2, port=port, **variables), NOBODY)
            self.finish([first, second])

    def test_one_that_lacks_the_secret_hears_so(self):
        port = random.randrange(20_000, 30_000)
        first = start(torchrun(0, 2, port=port, TUTTI_SECRET="word", TUTTI_TIMEOUT_MS="4000"))
        second = start(torchrun(1, 2, port=port))
        self.assertIn("has a secret by TUTTI_SECRET, which this rank lacks", self.finish([second], failing=True)[0])
        self.finish([first], failing=True)


class Encryption(unittest.TestCase):
    def job(self, common, ranks=(), n=2):
        """Exit status and output of a job, with variables for all and for the last rank."""
        exports = "".join(f"[ $RANK != {n - 1} ] || export {name}='{value}'; " for name, value in ranks)
        done = subprocess.run([RUN, "-n", str(n), "--grace", "30", "sh", "-c", exports + 'exec "$0"', PROGRAM],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT,
                              env=environment({"TUTTI_TIMEOUT_MS": "40000"} | common))
        return done.returncode, done.stdout

    def setUp(self):
        if "cannot be used" in self.job({"TUTTI_ENCRYPT": "1"})[1]:
            self.skipTest("there is no libcrypto")

    def test_a_job_runs_encrypted_or_under_tags(self):
        for variables in ({"TUTTI_ENCRYPT": "1"}, {"TUTTI_ENCRYPT": "1", "TUTTI_RECONNECT": "none"},
                          {"TUTTI_INTEGRITY": "mac", "TUTTI_HOSTID": "a"}, {"TUTTI_CHECK_RESULTS": "1"}):
            for n in (2, 3):
                status, said = self.job(variables | {"TUTTI_TRANSPORTS": "self,tcp"}, n=n)
                self.assertEqual(status, 0, said)

    def test_between_hosts(self):
        # Ranks with names of hosts of their own are joined as those of several hosts are.
        for variables in ({"TUTTI_ENCRYPT": "1"}, {"TUTTI_INTEGRITY": "mac"}):
            status, said = self.job(variables, [("TUTTI_HOSTID", "other")], n=3)
            self.assertEqual(status, 0, said)

    def test_ranks_that_differ_hear_so(self):
        said = self.job({}, [("TUTTI_ENCRYPT", "1")])[1]
        self.assertRegex(said, "TUTTI_ENCRYPT is 1 on rank 1 and 0 where ranks meet.*set it alike on all ranks")
        said = self.job({"TUTTI_TRANSPORTS": "self,tcp"}, [("TUTTI_INTEGRITY", "mac")])[1]
        self.assertIn("set TUTTI_ENCRYPT and TUTTI_INTEGRITY alike on all ranks", said)

    def test_what_cannot_encrypt_is_refused(self):
        for transport in ("verbs", "ucx", "ncclnet"):
            status, said = self.job({"TUTTI_ENCRYPT": "1", "TUTTI_TRANSPORTS": f"self,{transport},tcp"})
            self.assertNotEqual(status, 0)
            self.assertRegex(said, f"TUTTI_ENCRYPT=1, but {transport}, which TUTTI_TRANSPORTS .* does not encrypt|"
                                   f"there is no transport '{transport}'")

    def test_a_missing_libcrypto_and_a_missing_secret_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("libcrypto.so.3", "libcrypto.so.1.1"):
                pathlib.Path(folder, name).write_text("none", encoding="utf-8")
            for variables in ({"TUTTI_ENCRYPT": "1"}, {"TUTTI_INTEGRITY": "mac", "TUTTI_TRANSPORTS": "self,tcp"}):
                status, said = self.job(variables | {"LD_LIBRARY_PATH": folder})
                self.assertNotEqual(status, 0)
                self.assertRegex(said, "(TUTTI_ENCRYPT=1|TUTTI_INTEGRITY=mac): OpenSSL's libcrypto .* cannot be used: ")
        rank = start(torchrun(0, 2, "10.0.0.1", TUTTI_ENCRYPT="1"))
        said = rank.communicate(timeout=LIMIT)[0]
        self.assertRegex(said, "TUTTI_ENCRYPT=1 needs a secret, and ranks of several hosts .*set TUTTI_SECRET")


if __name__ == "__main__":
    RUN, INFO, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1], verbosity=2)
