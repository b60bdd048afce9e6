#!/usr/bin/env python3
"""Trains a small model by Ray Train, one worker on every node, on the backend named.

    python ray_train.py --backend tutti       # with RAY_ADDRESS, on that cluster"""
import argparse
import tempfile

import ray
import ray.train.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 16, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def train():
    """What every worker runs; Ray has made the group."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    model = ray.train.torch.prepare_model(model)
    loader = ray.train.torch.prepare_data_loader(DataLoader(dataset(), batch_size=8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    epochs = []
    for _ in range(3):
        sums = torch.zeros(2)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            sums += torch.tensor([loss.detach(), 1])
        dist.all_reduce(sums)
        epochs.append((sums[0] / sums[1]).item())
    nodes = [None] * dist.get_world_size()
    dist.all_gather_object(nodes, ray.get_runtime_context().get_node_id())
    weight = sum(p.detach().sum() for p in model.parameters()).item()
    return {"losses": epochs, "weight": weight, "backend": dist.get_backend(), "nodes": len(set(nodes))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    ray.init()
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            train,
            torch_config=TorchConfig(backend=arguments.backend),  # the line that changes
            scaling_config=ScalingConfig(num_workers=arguments.workers, placement_strategy="SPREAD"),
            run_config=RunConfig(storage_path=folder))
        told = trainer.fit().return_value
    for epoch, loss in enumerate(told["losses"]):
        print(f"epoch {epoch}: loss {loss:.9f}")
    print(f"{arguments.workers} workers on {told['nodes']} nodes on {told['backend']}: weight {told['weight']:.9f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
