"""A torch model in two pipeline stages, each replicated with its optimizer's states cut over the replicas (ZeRO), by
Tutti's training layers; then the same training by torch on one process, whose losses are the same.

    tutti-run -n 4 python examples/python/zero_pipeline.py [--steps 5] [--stage 1]        # 2 stages x 2 replicas"""
import argparse

import torch
import tutti
from tutti import parallel

WIDTH, BATCH, MICROS, RATE = 32, 4, 4, 1e-2  # samples of a micro-batch; micro-batches of a replica per step


def make_stage(stage):
    """The same on every rank that has it."""
    torch.manual_seed(stage)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH)]
    return torch.nn.Sequential(*layers, *([torch.nn.Tanh()] if stage == 0 else []))


def samples(step, replica, micro):
    """Inputs and targets of one micro-batch."""
    torch.manual_seed(1000 + 100 * step + 10 * replica + micro)
    x = torch.randn(BATCH, WIDTH)
    return x, x.roll(1, 1).sin()


class Stage:
    """What the pipeline calls: its arrays are numpy's, on which torch works without a copy."""

    def __init__(self, number, replica, zero_group, zero_stage, norm_group):
        self.module, self.replica, self.step, self.losses = make_stage(number), replica, 0, []
        self.names = [name for name, _ in self.module.named_parameters()]
        self.zero = parallel.Zero(zero_group, dict(self.module.named_parameters()), stage=zero_stage, micro_batches=MICROS,
                                  norm=norm_group, optimizer=parallel.optimizer("adamw", learning_rate=RATE, beta2=0.99))
        for name, parameter in self.module.named_parameters():  # the layer's own memory
            parameter.data = torch.from_numpy(self.zero.value(name))
        self.under_way = {}

    def forward(self, stage, micro, x, out):
        given, target = samples(self.step, self.replica, micro)
        x = given if x is None else torch.from_numpy(x).clone().requires_grad_()
        y = self.module(x)
        if out is None:
            y = torch.nn.functional.mse_loss(y, target)
            self.losses.append(y.item())
        else:
            torch.from_numpy(out).copy_(y.detach())
        self.under_way[micro] = x, y

    def backward(self, stage, micro, dout, dx, weights):
        x, y = self.under_way.pop(micro)
        self.zero.begin()
        for name, parameter in self.module.named_parameters():
            parameter.grad = torch.from_numpy(self.zero.gradient(name))  # backward adds to it in place
        y.backward(None if dout is None else torch.from_numpy(dout))
        for name in reversed(self.names):
            self.zero.ready(name)
        if dx is not None:
            torch.from_numpy(dx).copy_(x.grad)


def train(world, steps, zero_stage):
    """The mean loss of each step, on all ranks."""
    if world.size % 2:
        raise SystemExit(f"{world.size} ranks: there have to be two for each replica")
    with parallel.Grid(world, "pp=2,dp=0") as grid:
        stage = Stage(grid.coordinate("pp"), grid.coordinate("dp"), grid.group("dp"), zero_stage, world)
        means = []
        with parallel.Schedule("1f1b", 2, MICROS) as schedule, \
                parallel.Pipeline(grid.group("pp"), schedule, (BATCH, WIDTH), stage) as pipeline:
            for stage.step in range(steps):
                stage.losses.clear()
                pipeline.step()
                stage.zero.step()
                mean = torch.tensor([sum(stage.losses), float(len(stage.losses))])
                world.all_reduce(mean)
                means.append((mean[0] / mean[1]).item())
        stage.zero.destroy()
    return means


def reference(steps, replicas):
    """The same by torch alone."""
    model = torch.nn.Sequential(make_stage(0), make_stage(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    means = []
    for step in range(steps):
        batches = [samples(step, replica, micro) for replica in range(replicas) for micro in range(MICROS)]
        losses = [torch.nn.functional.mse_loss(model(x), y) for x, y in batches]
        mean = sum(losses) / len(losses)
        optimizer.zero_grad()
        mean.backward()
        optimizer.step()
        means.append(mean.item())
    return means


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--stage", type=int, default=1, choices=(0, 1), help="of ZeRO")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tutti.Communicator.from_env() as world:
        losses = train(world, options.steps, options.stage)
        if world.rank == 0:
            expected = reference(options.steps, world.size // 2)
            for step, (loss, other) in enumerate(zip(losses, expected)):
                print(f"step {step}: loss {loss:.6f}, torch alone {other:.6f}")
            worst = max(abs(a - b) / b for a, b in zip(losses, expected))
            if not worst < 1e-4:
                raise SystemExit(f"the losses differ by {worst:.2g}")


main()
