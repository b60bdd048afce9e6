"""The launchers themselves, on several hosts: Open MPI's mpirun, MPICH's mpiexec, srun and ssh, by the commands of
docs/launching.md."""
import os
import shutil
import subprocess
import unittest

import page
import suite
from clusters import Slurm, by_ssh
from hosts import Hosts

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def lacks(*programs):
    """A reason to skip, where one of them is not installed."""
    missing = [name for name in programs if shutil.which(name, path=PATH) is None]
    return unittest.skipIf(missing, f"no {', '.join(missing)} here: tools/install-dependencies hosts")


def is_open_mpi():
    done = subprocess.run(["mpirun", "--version"], capture_output=True, text=True)
    return "Open MPI" in done.stdout


class Launchers(suite.Case):
    def launch(self, made, environment, command, launcher, ranks):
        """All ranks find each other, twice, and then every collective is right, over the cables."""
        before = made.sent()
        status, text = made.start(0, f"{command} {suite.program('launch_ranks')} 2", environment).wait(suite.SECONDS)
        self.assertEqual(status, 0, text)
        for rank in range(ranks):
            self.assertEqual(text.count(f"{launcher} rank {rank} of {ranks}\n"), 1, text)
        self.all_right([made.start(0, f"{command} {suite.program('hosts_ranks')} all", environment)])
        self.assertGreater(min(after - then for after, then in zip(made.sent(), before)), 1 << 20)

    def shown(self, made, environment, name):
        """What docs/launching.md says, word by word."""
        blocks = page.commands(name)
        self.assertTrue(blocks)
        for script, line in blocks:
            status, text = made.start(0, script, environment).wait(suite.SECONDS)
            self.assertEqual(status, 0, text)
            self.assertIn(line + "\n", text)

    @lacks("sshd", "ssh-keygen")
    def test_ssh(self):
        with Hosts(3) as made, by_ssh(made, server=True) as environment, suite.work_folder(made):
            self.shown(made, environment, "ssh")

    @lacks("mpirun")
    def test_mpirun(self):
        if not is_open_mpi():
            self.skipTest("mpirun is not Open MPI's")
        for hosts, n in (("node0:2,node1:1", 3), ("node0:1,node1:3,node2:1", 5)):
            with self.subTest(hosts=hosts), Hosts(hosts.count("node")) as made, by_ssh(made) as environment:
                self.launch(made, environment, f"mpirun --host {hosts} -n {n}", "pmix", n)
        with Hosts(2) as made, by_ssh(made) as environment, suite.work_folder(made):
            self.shown(made, environment, "mpirun")

    @lacks("mpiexec.hydra")
    def test_mpiexec_of_mpich(self):
        for hosts, n, more in (("node0:2,node1:1", 3, ""), ("node0:1,node1:3,node2:1", 5, ""),
                               ("node0:2,node1:1", 3, "-pmi-port")):
            with self.subTest(hosts=hosts, more=more), Hosts(hosts.count("node")) as made, by_ssh(made) as environment:
                self.launch(made, environment, f"mpiexec.hydra {more} -hosts {hosts} -n {n}", "pmi", n)
        with Hosts(2) as made, by_ssh(made) as environment, suite.work_folder(made):
            self.shown(made, environment, "mpiexec.hydra")

    @lacks("srun", "slurmctld", "slurmd", "munged")
    def test_slurm(self):
        with Hosts(2) as made, Slurm(made) as environment:
            for mpi, launcher in (("none", "slurm"), ("pmix", "pmix"), ("pmi2", "pmi")):
                with self.subTest(mpi=mpi):
                    self.launch(made, environment, f"srun --mpi={mpi} -N 2 -n 3", launcher, 3)
            with suite.work_folder(made):
                self.shown(made, environment, "srun")
        # As in a cluster: mpiexec, whose daemons srun has started.
        if shutil.which("mpiexec.hydra"):
            with Hosts(2) as made, Slurm(made) as environment:
                self.launch(made, environment, "salloc -Q -N 2 -n 3 mpiexec.hydra -n 3", "pmi", 3)


if __name__ == "__main__":
    suite.main()
