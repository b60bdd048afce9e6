#!/usr/bin/env python3
"""Trains a small model by Lightning, in two processes that it starts itself, on the backend named.

    python torch_lightning.py --backend tutti"""
import argparse

import lightning
import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = F.mse_loss(self.layers(x), y)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self):
        self.print(f"epoch {self.current_epoch}: loss {self.trainer.callback_metrics['loss']:.9f}")

    def on_train_end(self):
        weights = self.all_gather(sum(p.detach().sum() for p in self.parameters()))
        self.print(f"{self.trainer.world_size} processes on {dist.get_backend()}: weight {weights.mean():.9f}")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05, momentum=0.9)


def dataset():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 16, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2,
        strategy=DDPStrategy(process_group_backend=arguments.backend),  # the line that changes
        max_epochs=3, gradient_clip_val=1.0, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False)
    trainer.fit(Module(), DataLoader(dataset(), batch_size=8))


if __name__ == "__main__":
    main()
