#!/usr/bin/env python3
"""Trains a small model by accelerate, on the backend named.

    torchrun --nproc-per-node 2 torch_accelerate.py --backend tutti

On CPUs accelerate's own option (InitProcessGroupKwargs) takes gloo and mpi alone; a group that is there already it uses."""
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 16, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    arguments = parser.parse_args()
    dist.init_process_group(arguments.backend)  # the line that changes
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset(), batch_size=8))
    for epoch in range(3):
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(accelerator.gather(loss.detach()).mean())
        accelerator.print(f"epoch {epoch}: loss {torch.stack(losses).mean():.9f}")
    weight = accelerator.reduce(sum(p.detach().sum() for p in model.parameters()), "mean")
    accelerator.print(f"{accelerator.num_processes} processes on {dist.get_backend()}: weight {weight:.9f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
