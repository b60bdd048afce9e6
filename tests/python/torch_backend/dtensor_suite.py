#!/usr/bin/env python3
"""Torch's database of operators (OpInfo, in its wheel) on DTensors over a backend, as torch's own test_dtensor_ops.py does it.

usage: dtensor_suite.py [--backend gloo|tutti] [--ranks N] [--out FILE] [OPERATOR...]

Every operator, on the first samples that torch has for it, with every way to lay its tensors over the ranks that
torch.testing names (up to --layouts): the whole result has to be that of ordinary tensors.  Each layout goes back and forth
through scatters, gathers, reductions and all-to-alls, each operator also through what its sharding rules redistribute.
--out writes "outcome operator reason" lines, which `torch_suite.py --table GLOO TUTTI` sets side by side.  An operator that torch
cannot lay out, or whose samples it cannot compare, is skipped with torch's reason, on either backend alike."""
import argparse
import itertools
import os
import sys
import tempfile
import warnings
from datetime import timedelta

# Not the same twice, or not the same on ranks: they draw numbers, or leave memory as it is.
UNLIKE = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted", "resize_", "resize_as_", "rand",
          "randn", "randint", "normal", "bernoulli", "multinomial", "uniform", "dropout", "rrelu", "log_normal", "exponential", "geometric",
          "cauchy", "randperm")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gloo", "tutti"], default="tutti")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--layouts", type=int, default=6)
    parser.add_argument("--out")
    parser.add_argument("operators", nargs="*")
    return parser.parse_args()


def whole(result):
    import torch
    from torch.distributed.tensor import DTensor
    from torch.utils._pytree import tree_map
    return tree_map(lambda one: one.full_tensor() if isinstance(one, DTensor) else one.wait() if hasattr(one, "wait") and
                    isinstance(one, torch.Tensor) else one, result)


class Skipped(Exception):
    pass


def try_operator(info, mesh, options):
    """Raises what is wrong; Skipped where torch has no way to do it."""
    import torch
    from torch.testing._internal.distributed._tensor.common_dtensor import DTensorConverter
    torch.manual_seed(0)
    done = 0
    for sample in itertools.islice(info.sample_inputs("cpu", torch.float32, requires_grad=False), options.samples):
        given, named = (sample.input, *sample.args), sample.kwargs
        expected = info.op(*given, **named)
        layouts = DTensorConverter(mesh, given, named)
        for laid, laid_named in itertools.islice(layouts, options.layouts):
            if not layouts.successful():
                continue
            try:
                result = info.op(*laid, **laid_named)
            except (NotImplementedError, RuntimeError, AssertionError, ValueError, TypeError, IndexError, KeyError) as error:
                if isinstance(error, torch.distributed.DistBackendError):
                    raise
                raise Skipped(f"{type(error).__name__}: {error}") from None
            torch.testing.assert_close(whole(result), expected, rtol=2e-4, atol=2e-4)
            done += 1
    if done == 0:
        raise Skipped("no sample that torch can lay over ranks")


def outcome_of(info, mesh, options):
    import torch
    import torch.distributed as dist
    try:
        try_operator(info, mesh, options)
        mine = ("passed", "")
    except Skipped as reason:
        mine = ("skipped", str(reason))
    except dist.DistBackendError as error:
        return "failed", str(error), True
    except Exception as error:
        mine = ("failed", f"{type(error).__name__}: {error}")
    worst = torch.tensor([{"passed": 0, "skipped": 1, "failed": 2}[mine[0]]])
    dist.all_reduce(worst, dist.ReduceOp.MAX)  # and nobody goes on alone
    return ("passed", "skipped", "failed")[worst.item()], mine[1], False


def rank_main(rank, options, folder):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.common_methods_invocations import op_db

    import tutti.torch  # noqa: F401  older torch does not find it by itself
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(options.backend, init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks,
                            timeout=timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (options.ranks,))
    out = open(options.out, "w") if options.out and rank == 0 else None
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    for info in op_db:
        name = ".".join(filter(None, (info.name, info.variant_test_name)))
        if (options.operators and name not in options.operators) or any(word in info.name.split(".")[-1] for word in UNLIKE):
            continue
        outcome, reason, broken = outcome_of(info, mesh, options)
        counts[outcome] += 1
        line = f"{outcome} {name} {' '.join(reason.split())[:300]}".rstrip()
        if rank == 0 and (out is None or outcome == "failed"):
            print(line[:200], flush=True)
        if out:
            out.write(line + "\n")
            out.flush()
        if broken:
            sys.exit(f"rank {rank}: the group is broken: {reason}")
    if rank == 0:
        print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    dist.destroy_process_group()
    return 1 if counts["failed"] else 0


def main():
    options = arguments()
    import torch.multiprocessing as multiprocessing
    import torch.testing._internal.common_methods_invocations  # noqa: F401  once, before the ranks are forked
    with tempfile.TemporaryDirectory() as folder:
        ranks = [multiprocessing.get_context("fork").Process(target=lambda rank=rank: os._exit(guarded(rank, options, folder)))
                 for rank in range(options.ranks)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    sys.exit(max(abs(rank.exitcode) for rank in ranks))


def guarded(rank, options, folder):
    """The exit code: a forked child must not run its parent's end."""
    import traceback
    try:
        return rank_main(rank, options, folder)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    main()
