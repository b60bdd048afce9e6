"""One rank of tools/clients/pytorch, which starts it with the variables of torchrun.  Rank 0 writes a report."""
import argparse
import ctypes
import datetime
import json
import os
import sys

import torch
import torch.distributed as dist

import pytorch_collectives
import pytorch_training


def library_of_calls():
    """The file whose ncclGetVersion a library gets that looks it up as PyTorch's do: first among all that are loaded."""
    address = ctypes.cast(ctypes.CDLL(None).ncclGetVersion, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if start <= address < end:
                return os.path.realpath(line.split()[-1])
    return "an unknown file"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    parser.add_argument("--parts", required=True)
    parser.add_argument("--report", required=True)
    options = parser.parse_args()
    parts = options.parts.split(",")
    on_gpu = options.backend == "nccl"
    device = torch.device("cuda:0" if on_gpu else "cpu")
    report = {"torch": torch.__version__, "nccl": "none", "checks": [], "losses": {}}
    if on_gpu:
        wanted = os.path.realpath(os.environ["LD_PRELOAD"].split()[0])
        if library_of_calls() != wanted:
            sys.exit(f"calls of NCCL go to {library_of_calls()}, not to {wanted}: is LD_PRELOAD dropped on the way?")
        torch.cuda.set_device(device)
        report["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    dist.init_process_group(options.backend, timeout=datetime.timedelta(seconds=60))
    report["world"] = dist.get_world_size()
    if "collectives" in parts:
        report["checks"] = pytorch_collectives.check_all(device, options.backend)
    for precision in (torch.float32, torch.float64):
        for kind in ("plain", "ddp", "fsdp"):
            if kind in parts and (kind != "plain" or report["world"] == 1):
                name = f"{kind} {str(precision).removeprefix('torch.')}"
                report["losses"][name] = pytorch_training.train(kind, precision, device)
                print(name, report["losses"][name], flush=True)
    dist.barrier()
    if dist.get_rank() == 0:
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(report, file)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    # Only DDP and FSDP2 may need deterministic kernels; products of matrices must not be rounded to fewer bits.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = False
    sys.exit(main())
