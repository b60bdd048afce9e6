"""What the tests among hosts share: the programs they run, ranks on hosts, and the end of all as a test."""
import contextlib
import os
import sys
import time
import unittest

import hosts

BUILD = None  # the folder that Tutti was built in
SECONDS = 120  # more than any job takes on a busy machine


FOLDERS = {"hosts_ranks": "tests/multiproc", "launch_ranks": "tests/multiproc", "steady_ranks": "tests/multiproc",
           "tutti-chaos": "tools", "tutti-top": "tools", "tutti-doctor": "tools", "example_allreduce": "examples"}


def program(name):
    return os.path.join(BUILD, FOLDERS[name], name)


@contextlib.contextmanager
def work_folder(made):
    """The current folder of commands is one that all hosts see, with ./program in it."""
    before, folder = os.getcwd(), f"{made.folder}/work"
    os.mkdir(folder)
    os.symlink(program("example_allreduce"), f"{folder}/program")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def ranks_of(layout):
    """(rank, host, local rank, ranks of that host) for a layout such as [2, 1]: two ranks on node0, one on node1."""
    rank = 0
    for host, n in enumerate(layout):
        for local in range(n):
            yield rank, host, local, n
            rank += 1


def torchrun(layout, rank, host, local, n):
    """The variables of torchrun; also of PyTorchJob and of Ray's workers."""
    return {"RANK": rank, "WORLD_SIZE": sum(layout), "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": n, "GROUP_RANK": host,
            "MASTER_ADDR": "node0", "MASTER_PORT": 29500}


def slurm(layout, rank, host, local, n):
    """Those of srun without PMIx."""
    nodes = "node0" if len(layout) == 1 else f"node[0-{len(layout) - 1}]"
    return {"SLURM_JOB_ID": 4711, "SLURM_STEP_ID": 0, "SLURM_NTASKS": sum(layout), "SLURM_STEP_NUM_TASKS": sum(layout),
            "SLURM_PROCID": rank, "SLURM_LOCALID": local, "SLURM_NODEID": host, "SLURM_STEP_NODELIST": nodes,
            "SLURM_LAUNCH_NODE_IPADDR": "10.77.0.1"}


def start(made, layout, command, variables=torchrun, common=None, ranks=None):
    """All ranks of a job, with the variables that a launcher gives, some for all, and some for a few."""
    started = []
    for rank, host, local, n in ranks_of(layout):
        given = {k: str(v) for k, v in variables(layout, rank, host, local, n).items()}
        given |= {"TUTTI_CALIBRATION": "off"} | (common or {}) | (ranks or {}).get(rank, {})
        started.append(made.start(host, command, given))
    return started


class Case(unittest.TestCase):
    def all_work(self, jobs):
        """Waits until each of these steady_ranks has been through its first calls: a busy machine starts them late."""
        end = time.monotonic() + SECONDS
        while not all("works\n" in job.said() for job in jobs):
            self.assertLess(time.monotonic(), end, [job.said() for job in jobs])
            time.sleep(0.02)

    def all_right(self, jobs, seconds=SECONDS):
        for rank, (status, text) in enumerate([job.wait(seconds) for job in jobs]):
            self.assertEqual(status, 0, f"rank {rank}: {text}")


def main():
    """Runs the calling file's tests: FILE BUILD_FOLDER [TEST...].  Exit status 77, with the reason, without hosts."""
    global BUILD
    reason = hosts.why_not()
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    BUILD = os.path.abspath(sys.argv.pop(1))
    done = unittest.main(module="__main__", verbosity=1, exit=False).result
    for test, why in done.skipped:
        print(f"SKIP: {test}: {why}")
    sys.exit(not done.wasSuccessful() and 1 or 77 * (done.testsRun > 0 and len(done.skipped) == done.testsRun))
