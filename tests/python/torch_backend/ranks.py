"""Ranks as processes: each forked from a process that has imported torch, which takes a second less than a new one."""
import contextlib
import datetime
import multiprocessing
import os
import signal
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import tutti.torch

DEADLINE_S = 120


def run(n_ranks, body, backend="tutti", destroy=True, expect=None, **arguments):
    """body(rank, n_ranks) on every rank of a new default group.  Raises with what ranks complain of.

    expect: rank -> exit code of those that do not end by themselves."""
    processes, pipes = [], []
    arguments.setdefault("timeout", datetime.timedelta(seconds=30))
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(n_ranks):
            ours, theirs = multiprocessing.Pipe(False)
            process = multiprocessing.get_context("fork").Process(
                target=main, args=(rank, n_ranks, body, backend, destroy, folder, arguments, theirs))
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        complaints = collect(processes, pipes, expect or {})
    assert not complaints, "\n".join(complaints)


def main(rank, n_ranks, body, backend, destroy, folder, arguments, pipe):
    code = 0
    try:
        torch.set_num_threads(1)
        dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=n_ranks, **arguments)
        body(rank, n_ranks)
        if destroy:
            dist.destroy_process_group()
            tutti.torch.engine._leave()  # as at the end of an interpreter: older torch leaves its groups to that
    except BaseException:
        pipe.send(traceback.format_exc())
        code = 1
    os._exit(code)


def collect(processes, pipes, expect):
    complaints, end = [], time.monotonic() + DEADLINE_S
    for rank, (process, pipe) in enumerate(zip(processes, pipes)):
        process.join(max(end - time.monotonic(), 0.1))
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            complaints.append(f"rank {rank} did not end within {DEADLINE_S} s")
        with contextlib.suppress(EOFError):
            while pipe.poll():
                complaints.append(f"rank {rank}: {pipe.recv()}")
        if process.exitcode != expect.get(rank, 0):
            complaints.append(f"rank {rank} ended with {process.exitcode}")
    return complaints


@contextlib.contextmanager
def raises(kind, *words):
    """An exception of the kind whose text has all of the words."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error!r}"
        return
    raise AssertionError(f"nothing was raised; expected {kind.__name__} with {words}")
