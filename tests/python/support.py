"""Ranks as threads of one process, and as processes under tutti-run."""
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import tutti
from tutti._library import find_program


def ranks(n, body, **options):
    """What body(comm) gave or raised on each of n ranks.  One that raises aborts its communicator."""
    unique_id, results = tutti.get_unique_id(), [None] * n

    def run(rank):
        try:
            with tutti.Communicator.init(n, rank, unique_id, **options) as comm:
                results[rank] = body(comm)
        except BaseException as error:  # noqa: BLE001
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def good(results):
    """The results, or the first exception of a rank."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def python_path(**more):
    """The environment of a process that imports the same tutti."""
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(tutti.__file__).parents[1]), **more}


def processes(n, text, timeout=60, flags=(), **environment):
    """(exit status, output) of a Python text on n processes."""
    done = subprocess.run([find_program("tutti-run"), "-n", str(n), *flags, sys.executable, "-c", textwrap.dedent(text)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env=python_path(**environment))
    return done.returncode, done.stdout
