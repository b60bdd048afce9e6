"""The backend "tutti" of torch.distributed.

    torch.distributed.init_process_group("tutti")                  # CPU tensors
    torch.distributed.init_process_group("cpu:tutti,cuda:nccl")

Newer torch finds it by itself; older needs `import tutti.torch` first.  docs/pytorch.md tells what it does."""
from .group import ProcessGroup, register
from .options import Options
from .recorder import dump_flight_recorder, flight_record

register()

__all__ = ["Options", "ProcessGroup", "dump_flight_recorder", "flight_record", "register"]
