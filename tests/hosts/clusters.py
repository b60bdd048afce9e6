"""What launchers need on hosts: ssh between them, or Slurm.  Context managers that give the environment for commands."""
import contextlib
import os
import subprocess
import time

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts")
SERVER = ("mkdir -p /run/sshd; exec $(command -v sshd || echo /usr/sbin/sshd) -D -e -f /dev/null -o HostKey={key} -o StrictModes=no"
          " -o AuthorizedKeysFile={key}.pub -o UsePAM=no -o PidFile=none")
SLURM = """ClusterName=tests
SlurmctldHost=node0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n.spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=node[0-{last}] Sockets=1 CoresPerSocket=8 ThreadsPerCore=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
START_SECONDS = 60


def ended(running):
    for command in running:
        command.end()


def until(ready, what):
    end = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} has not come up")
        time.sleep(0.1)


def write(path, content, mode=0o644):
    with open(path, "w") as file:
        file.write(content)
    os.chmod(path, mode)


@contextlib.contextmanager
def by_ssh(made, server=False):
    """A command `ssh` for mpirun and mpiexec: the true one, with servers on all hosts, or one that does without them.
    mpiexec is MPICH's."""
    folder = made.folder
    os.makedirs(f"{folder}/bin")
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "TUTTI_TEST_HOSTS": folder, "TUTTI_CALIBRATION": "off",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    write(f"{folder}/bin/ssh", f'#!/bin/sh\nexec {TOOL} rsh "$@"\n', 0o755)
    write(f"{folder}/bin/mpiexec", '#!/bin/sh\nexec mpiexec.hydra "$@"\n', 0o755)
    running = []
    if server:
        key = f"{folder}/key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        write(f"{folder}/bin/ssh", f"#!/bin/sh\nexec /usr/bin/ssh -i {key} -o StrictHostKeyChecking=no "
                                   '-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n', 0o755)
        running = [made.start(host, SERVER.format(key=key)) for host in range(made.n)]
        until(lambda: made.start(0, "for n in " + " ".join(map(made.name, range(made.n))) + "; do ssh $n true || exit 1; done",
                                 environment).wait(20)[0] == 0, "an ssh server")
    try:
        yield environment
    finally:
        ended(running)


@contextlib.contextmanager
def Slurm(made):
    """Slurm's daemons: the controller on node0, the others everywhere."""
    folder = made.folder
    write(f"{folder}/slurm.conf", SLURM.format(folder=folder, last=made.n - 1))
    write(f"{folder}/cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\n")
    write(f"{folder}/munge.key", os.urandom(64).hex(), 0o400)
    os.mkdir(f"{folder}/state")
    environment = {"SLURM_CONF": f"{folder}/slurm.conf", "TUTTI_CALIBRATION": "off"}
    for host in range(made.n):
        os.mkdir(f"{folder}/{made.name(host)}.spool")
        made.check(host, f"mkdir -m 755 /run/munge; munged --force --key-file={folder}/munge.key --pid-file=/run/munge/pid "
                         "--socket=/run/munge/munge.socket.2 --log-file=/run/munge/log --seed-file=/run/munge/seed")
    running = [made.start(0, "slurmctld -D -c", environment)]
    running += [made.start(host, f"slurmd -D -N {made.name(host)}", environment) for host in range(made.n)]
    try:
        until(lambda: made.start(0, "sinfo -h -N -o %t", environment).wait(20)[1].split() == ["idle"] * made.n, "Slurm")
        yield environment
    finally:
        ended(running)
