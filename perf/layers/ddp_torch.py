#!/usr/bin/env python3
"""The chain of steps.cpp under PyTorch's DistributedDataParallel over gloo: one rank, which beside_torch starts.

Prints, on rank 0, milliseconds: the computation alone on all ranks at once, and a step with communication.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def chain(layers, width):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width, bias=False), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


def slowest(ms):
    value = torch.tensor([ms], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def timed(steps, step):
    times = []
    for i in range(steps + 1):
        dist.barrier()
        start = time.perf_counter()
        step()
        if i > 0:
            times.append((time.perf_counter() - start) * 1e3)
    return slowest(statistics.median(times))


def main():
    width, layers, rows, steps, rounds = (int(x) for x in sys.argv[1:6])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    torch.manual_seed(0)
    x = torch.full((rows, width), 0.5)

    def stepper(model, bare):
        optimizer = torch.optim.SGD(bare.parameters(), lr=1e-3)

        def step():
            optimizer.zero_grad(set_to_none=False)
            model(x).mean().backward()
            optimizer.step()
        return step

    alone = chain(layers, width)
    shared = chain(layers, width)
    parallel = DistributedDataParallel(shared, gradient_as_bucket_view=True)
    steps_of = [stepper(alone, alone), stepper(parallel, shared)]
    best = [float("inf")] * 2
    for _ in range(rounds):
        for i, step in enumerate(steps_of):
            best[i] = min(best[i], timed(steps, step))
    if dist.get_rank() == 0:
        print("%.4f %.4f" % tuple(best), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
