#!/usr/bin/env python3
"""Starts ranks on hosts of tests/hosts: on_hosts.py FOLDER HOSTS PER_HOST PROGRAM   (launcher: none)
                                           on_hosts.py FOLDER --mpirun WORD...       (Open MPI's, on node0)
All ranks of all hosts are in one session, as those of one host are elsewhere: they share this machine's processors.  When one host's fail the others are ended, and so is this."""
import os
import select
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "hosts"))
import hosts  # noqa: E402

TOOL = os.path.join(TOP, "tests", "hosts", "hosts")
RANKS = os.path.join(TOP, "perf", "compare", "ranks.py")


def ask(folder, host, command):
    environment = dict(os.environ, TUTTI_TEST_HOSTS=folder, TUTTI_TEST_HOSTS_SESSION="shared", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return hosts.connect(folder, f"node{host}", command, environment, [0, 1, 2], os.getcwd(), own_session=False)


def end_of(connections):
    """The first status that is not 0, else 0."""
    left = list(connections)
    while left:
        for connection in select.select(left, [], [])[0]:
            status = connection.recv(1)
            left.remove(connection)
            if status != b"\0":
                return status[0] if status else 1
    return 0


def main(folder, words):
    if words[0] == "--mpirun":
        agent = ["--mca", "plm_rsh_agent", f"{sys.executable} {TOOL} rsh", "--leave-session-attached"]
        return end_of([ask(folder, 0, [words[1], *agent, *words[2:]])])
    count, each, program = int(words[0]), words[1], words[2]
    ranks = [sys.executable, RANKS, each, program]
    return end_of([ask(folder, host, [*ranks, str(host * int(each))]) for host in range(count)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
