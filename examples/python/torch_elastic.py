#!/usr/bin/env python3
"""A job that torchrun starts again when a worker dies: it goes on from its last checkpoint.

    torchrun --nproc-per-node 4 --max-restarts 1 torch_elastic.py --folder /tmp/job --kill 2

--kill N: worker N of the first start ends by SIGKILL in the middle of a step, as a crash would."""
import argparse
import os
import pathlib
import signal

import torch
import torch.distributed as dist

STEPS, KILLED_IN = 8, 4


def resume(path, model, optimizer):
    """The step to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save(path, model, optimizer, step):
    """Whole or not at all."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{path}.new")
    os.replace(f"{path}.new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--kill", type=int, default=-1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(arguments.backend)
    rank, start = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    path = arguments.folder / "checkpoint"
    begin = resume(path, model, optimizer)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    for step in range(begin, STEPS):
        generator = torch.Generator().manual_seed(100 * step + rank)
        data = torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        loss = (parallel(data) - data.sum(1, keepdim=True)).square().mean()
        if rank == arguments.kill and start == 0 and step == KILLED_IN:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        if rank == 0:
            save(path, model, optimizer, step + 1)
        dist.barrier()
    dist.all_reduce(loss.detach())
    if rank == 0:
        print(f"{dist.get_world_size()} workers, start {start}: steps {begin} to {STEPS}, weight {model.weight.sum().item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
