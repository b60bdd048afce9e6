"""A small transformer, trained alone, under DDP, or under FSDP2, on the same global batches."""
import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, LENGTH, WORDS, WIDTH = 5, 8, 16, 61, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
            for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        length = words.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=words.device).triu(1)
        x = self.embedding(words) + self.position
        for layer in self.layers:
            x = layer(x, src_mask=later)
        return self.head(x)


def wrapped(kind, model, device):
    if kind == "ddp":
        from torch.nn.parallel import DistributedDataParallel
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    if kind == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:  # before 2.6
            from torch.distributed._composable.fsdp import fully_shard
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    return model


def batches(device):
    """The global batches, alike on all ranks: sequences in which a word tells much of the next."""
    random = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        start = torch.randint(0, WORDS, (BATCH, 1), generator=random)
        stride = torch.randint(1, 4, (BATCH, 1), generator=random)
        yield ((start + stride * torch.arange(LENGTH + 1)) % WORDS).to(device)


def train(kind, precision, device):
    """The global loss of every step."""
    torch.manual_seed(3)
    rank, world = dist.get_rank(), dist.get_world_size()
    assert BATCH % world == 0, f"{BATCH} sequences for {world} ranks"
    model = wrapped(kind, Model().to(device=device, dtype=precision), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for batch in batches(device):
        mine = batch[rank::world]
        logits = model(mine[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), mine[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    return losses
