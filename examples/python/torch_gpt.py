#!/usr/bin/env python3
"""Trains one small GPT under every layout that torch has, on the backend named; the losses are those of one process.

    torchrun --nproc-per-node 4 torch_gpt.py --backend tutti --layout ddp

layouts: ddp, fsdp2, tp, tp-fsdp, pp-1f1b, pp-interleaved, cp (context parallel)"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 64, 16, 4, 8, 32, 8


class Attention(nn.Module):
    """Causal.  With a context group the rank has one slice of the sequence, and gathers the others' keys and values."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.context = None

    def forward(self, x):
        q, k, v = (self._heads(project(x)) for project in (self.query, self.key, self.value))
        mask, causal = None, True
        if self.context is not None:
            rank, length = self.context.rank(), x.shape[1]
            k, v = (all_gather_tensor_autograd(part.contiguous(), 2, self.context) for part in (k, v))
            places = torch.arange(k.shape[2])
            mask, causal = places[None, :] <= (rank * length + torch.arange(length))[:, None], False
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.output(x.transpose(1, 2).flatten(2))

    def _heads(self, x):  # with tensor parallelism a rank has some of them
        return x.unflatten(2, (-1, WIDTH // HEADS)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.first, self.second = Attention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.offset = 0

    def forward(self, tokens):
        return self.token(tokens) + self.place(self.offset + torch.arange(tokens.shape[1]))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.logits = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        return self.logits(self.norm(x))


def model():
    """The same on every rank; a sequence, so that a pipeline can cut it anywhere."""
    torch.manual_seed(0)
    return nn.Sequential(Embedding(), *(Block() for _ in range(LAYERS)), Head())


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        start = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        stride = torch.randint(1, 4, (BATCH, 1), generator=generator)
        tokens = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
        yield tokens[:, :-1], tokens[:, 1:]


def optimizer(parameters):
    return torch.optim.AdamW(parameters, 1e-2, foreach=False)


class Plain:
    """One model per rank, on this rank's share of a batch."""
    parts = 1  # of the batch, among ranks

    def __init__(self, net):
        self.net = net
        self.optimizer = optimizer(net.parameters())

    def share(self, tokens, targets):
        if self.parts == 1:
            return tokens, targets
        return tokens.chunk(self.parts)[self.part], targets.chunk(self.parts)[self.part]

    def step(self, tokens, targets):
        tokens, targets = self.share(tokens, targets)
        self.optimizer.zero_grad()
        loss = loss_of(self.net(tokens), targets)
        loss.backward()
        self.finish_gradients()
        self.optimizer.step()
        return self.mean(loss.detach().clone())

    def finish_gradients(self):
        pass

    def mean(self, loss):
        """Of all ranks, each of which has the same share of the batch, or all of it."""
        dist.all_reduce(loss)
        return loss.item() / dist.get_world_size()


class Ddp(Plain):
    def __init__(self):
        super().__init__(nn.parallel.DistributedDataParallel(model()))
        self.parts, self.part = dist.get_world_size(), dist.get_rank()


class Fsdp2(Plain):
    def __init__(self, mesh=None, net=None):
        mesh, net = mesh or init_device_mesh("cpu", (dist.get_world_size(),)), net or model()
        for block in net:
            fully_shard(block, mesh=mesh)
        super().__init__(fully_shard(net, mesh=mesh))
        self.parts, self.part = mesh.size(), mesh.get_local_rank()


def tensor_parallel(net, mesh):
    plan = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
    plan.update({"attention.output": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
    for block in net[1:-1]:
        parallelize_module(block, mesh, plan)
    return net


class Tp(Plain):
    def __init__(self):
        super().__init__(tensor_parallel(model(), init_device_mesh("cpu", (dist.get_world_size(),))))


class TpFsdp(Fsdp2):
    def __init__(self):
        mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("data", "tensor"))
        super().__init__(mesh["data"], tensor_parallel(model(), mesh["tensor"]))


class Context(Plain):
    """Each rank has a slice of every sequence."""

    def __init__(self):
        net = model()
        self.size, self.rank = dist.get_world_size(), dist.get_rank()
        net[0].offset = self.rank * (LENGTH // self.size)
        for block in net[1:-1]:
            block.attention.context = dist.group.WORLD
        super().__init__(net)

    def share(self, tokens, targets):
        return tokens.chunk(self.size, 1)[self.rank], targets.chunk(self.size, 1)[self.rank]

    def finish_gradients(self):
        for parameter in self.net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.size


class Pipeline:
    """stages: per rank.  The loss is known on the last stage's rank, which tells the others."""

    def __init__(self, stages=1):
        size, rank = dist.get_world_size(), dist.get_rank()
        layers, count = list(model()), size * stages
        cuts = [round(at * len(layers) / count) for at in range(count + 1)]
        mine = [rank + turn * size for turn in range(stages)]
        self.parts = [nn.Sequential(*layers[cuts[at]:cuts[at + 1]]) for at in mine]
        built = [PipelineStage(part, at, count, torch.device("cpu")) for part, at in zip(self.parts, mine)]
        schedule, argument = (Schedule1F1B, built[0]) if stages == 1 else (ScheduleInterleaved1F1B, built)
        self.schedule = schedule(argument, n_microbatches=BATCH // 2, loss_fn=loss_of)
        self.optimizer = optimizer(parameter for part in self.parts for parameter in part.parameters())
        self.first, self.last = 0 in mine, count - 1 in mine

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        losses = []
        self.schedule.step(*([tokens] if self.first else []), **({"target": targets, "losses": losses} if self.last else {}))
        self.optimizer.step()
        loss = torch.stack(losses).mean().detach() if self.last else torch.zeros(())
        dist.broadcast(loss, dist.get_world_size() - 1)
        return loss.item()


LAYOUTS = {"ddp": Ddp, "fsdp2": Fsdp2, "tp": Tp, "tp-fsdp": TpFsdp, "pp-1f1b": Pipeline,
           "pp-interleaved": lambda: Pipeline(stages=2), "cp": Context}


def reference(steps):
    """The losses of one process."""
    net = model()
    adam = optimizer(net.parameters())
    losses = []
    for tokens, targets in batches(steps):
        adam.zero_grad()
        loss = loss_of(net(tokens), targets)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def train(layout, steps):
    """(losses, seconds of each step)"""
    trainer, losses, seconds = LAYOUTS[layout](), [], []
    for tokens, targets in batches(steps):
        dist.barrier()
        began = time.perf_counter()
        losses.append(trainer.step(tokens, targets))
        seconds.append(time.perf_counter() - began)
    return losses, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--layout", choices=[*LAYOUTS, "all"], default="all")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    expected = reference(arguments.steps)
    for layout in LAYOUTS if arguments.layout == "all" else [arguments.layout]:
        losses, seconds = train(layout, arguments.steps)
        off = max(abs(loss - other) for loss, other in zip(losses, expected))
        if dist.get_rank() == 0:
            print(f"{arguments.backend} {layout}: {dist.get_world_size()} ranks, loss {losses[0]:.6f} to {losses[-1]:.6f}, off one process by "
                  f"{off:.1e}, step {statistics.median(seconds[1:]) * 1e3:.1f} ms", flush=True)
        if off > 1e-3:
            raise SystemExit(f"rank {dist.get_rank()}: {layout} gives {losses}, one process {expected}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
