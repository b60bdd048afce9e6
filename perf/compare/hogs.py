#!/usr/bin/env python3
"""Busy loops beside the measured ranks, as data loaders or other programs are.

Linux shares a core among sessions first (autogroups), so it matters whose session they are in: hogs of the ranks' own
session take turns with each rank, hogs of another take half of what all ranks have on a core together.

As a program, hogs.py COUNT FILE COMMAND...: starts COUNT of them in its own session, stopped, writes their numbers to FILE,
and runs COMMAND; they end with it."""
import contextlib
import os
import signal
import subprocess
import sys

KINDS = ("same-session", "own-session")


def compute(number, parent):
    """On a core of its own, as long as there are as many; ends with its parent."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cpus[number % len(cpus)]])
    while os.getppid() == parent:
        for _ in range(100000):
            pass


def start(count, stopped):
    """The processes' numbers."""
    parent, pids = os.getpid(), []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            if stopped:
                os.kill(os.getpid(), signal.SIGSTOP)
            compute(number, parent)
            os._exit(0)
        pids.append(pid)
    return pids


def end(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


@contextlib.contextmanager
def computing(count):
    """COUNT of them in a session that no rank is in, for as long as the context lasts, which gets the session's number."""
    if count == 0:
        yield None
        return
    keeper = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(count), "", "cat"], stdin=subprocess.PIPE,
                              start_new_session=True)
    try:
        yield keeper.pid
    finally:
        keeper.stdin.close()
        keeper.wait()


@contextlib.contextmanager
def beside(count, kind):
    """COUNT of them for as long as the context lasts, in a session that no rank is in or in that of this process."""
    if kind == "own-session":
        with computing(count):
            yield
        return
    pids = start(count, stopped=False)
    try:
        yield
    finally:
        end(pids)


def parse(p, words):
    """(how many, whose session they are in) of --hogs; ends the program by p, an ArgumentParser, if that says neither."""
    number, *kind = words
    if not number.isdigit() or int(number) > 1024 or len(kind) > 1 or kind and kind[0] not in KINDS:
        p.error(f"--hogs {' '.join(words)}: a number up to 1024, and {' or '.join(KINDS)}")
    return int(number), kind[0] if kind else "own-session"


HELP = (f"beside N busy loops, whose part of the cores is in the times; KIND: {' or '.join(KINDS)} (default): "
        "as the ranks' or apart from them")


def main(count, file, command):
    pids = start(count, stopped=bool(file))
    if file:
        for pid in pids:  # a signal to go on that comes before they have stopped would be lost
            os.waitpid(pid, os.WUNTRACED)
        with open(file + ".new", "w") as f:
            f.write(" ".join(map(str, pids)))
        os.rename(file + ".new", file)
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        status = child.wait()
    finally:
        end(pids)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
