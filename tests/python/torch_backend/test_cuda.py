"""CUDA tensors: on GPUs where there are some, else on the driver of tests/fake_cuda.

Without a GPU torch's CUDA runtime is replaced by cuda_runtime.c, built here, in a pytest of its own that runs this file again.
Torch's kernels do not run there: tensors are filled and compared on the host."""
import ctypes
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import raises, run
from tutti.torch.group import PYTHON_BACKENDS

HERE = pathlib.Path(__file__).resolve().parent
PRETENDED = "TUTTI_TEST_CUDA_RUNTIME" in os.environ
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # a driver that has been asked is of no use to forked ranks
N = 3

needs_cuda = pytest.mark.skipif(not PRETENDED and not torch.cuda.is_available(), reason="no GPU; see test_on_a_driver_without_a_gpu")
newer = pytest.mark.skipif(not PYTHON_BACKENDS, reason="this torch has no backends in Python")


# ---- Without a GPU ----


def runtime(folder):
    """The library, as torch's and as the driver's file, in the folder."""
    torch_libraries = pathlib.Path(torch.__file__).parent / "lib"
    headers = list(pathlib.Path(torch.__file__).parents[1].glob("nvidia/cu*/include/cuda_runtime_api.h"))
    driver = pathlib.Path(os.environ.get("TUTTI_HOME", "")).resolve() / "tests" / "fake_cuda" / "libcuda.so.1"
    if torch.version.cuda is None or not headers:
        pytest.skip("this torch was built without CUDA, or without its headers beside it")
    if not driver.exists():
        pytest.skip(f"there is no {driver}: TUTTI_HOME has to be a build folder with tests")
    if shutil.which("cc") is None or shutil.which("nm") is None:
        pytest.skip("there is no C compiler")
    soname = f"libcudart.so.{torch.version.cuda.split('.')[0]}"
    (folder / "exports").write_text(soname + " { global: cuda*; __cuda*; cu[A-Z]*; fakeCuda*; local: *; };\n")
    made = folder / soname
    command = ["cc", "-shared", "-fPIC", "-O1", "-I", headers[0].parent, f'-DDRIVER_PATH="{driver}"', f"-Wl,-soname,{soname}",
               f"-Wl,--version-script={folder / 'exports'}", HERE / "cuda_runtime.c", "-ldl", "-o", made]
    subprocess.run(command, check=True)
    asked = {name for library in torch_libraries.glob("lib*.so") for name in symbols(library, "--undefined-only")}
    (folder / "missing.c").write_text("".join(f"int {name}(void) {{ return 801; }}  // cudaErrorNotSupported\n"
                                              for name in sorted(asked - symbols(made, "--defined-only"))))
    subprocess.run([*command, "-w", folder / "missing.c"], check=True)
    (folder / "libcuda.so.1").symlink_to(made)
    return made


def symbols(library, which):
    """Functions of the CUDA runtime, of other libraries or of its own."""
    text = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True).stdout
    return set(re.findall(r"\b(_*cuda[A-Z]\w*)(?:@+libcudart\S*)?$", text, re.M))


@pytest.mark.skipif(PRETENDED or torch.cuda.is_available(), reason="the tests below run here")
@newer
def test_on_a_driver_without_a_gpu(tmp_path):
    library = runtime(tmp_path)
    settings = {"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(tmp_path), "TUTTI_TEST_CUDA_RUNTIME": str(library),
                "TUTTI_TEST_FAKE_CUDA": f"devices={N};delay=100"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], env={**os.environ, **settings},
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and re.search(r"^\d+ passed, 2 skipped", done.stdout, re.M), done.stdout[-6000:] + done.stderr[-3000:]


# ---- With one ----


def here(rank):
    index = rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def on(device, *shape, value=0.0, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype).to(device)


def complaints():
    """What the driver without a GPU has seen of memory that was used after its end, or by the wrong device."""
    if not PRETENDED:
        return []
    ask = ctypes.CDLL(os.environ["TUTTI_TEST_CUDA_RUNTIME"]).fakeCudaComplaints
    ask.restype = ctypes.c_char_p
    return [line for line in ask().decode().splitlines() if not re.search("not been|never|ends with a context|still", line)]


def collectives(rank, n):
    device = here(rank)
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = on(device, 7, value=rank + 1, dtype=dtype)
        dist.all_reduce(x)
        assert x.cpu().tolist() == [n * (n + 1) / 2] * 7, x
    mean, most = on(device, 3, value=float(rank)), on(device, 3, value=rank)
    dist.all_reduce(mean, dist.ReduceOp.AVG, async_op=True).wait()
    dist.reduce(most, n - 1, dist.ReduceOp.MAX)
    assert mean.cpu()[0] == (n - 1) / 2 and (rank != n - 1 or most.cpu()[2] == n - 1)
    whole, parts, piece, first = on(device, n * 2), [on(device, 2) for _ in range(n)], on(device, 3), on(device, 5, value=rank)
    dist.all_gather_into_tensor(whole, on(device, 2, value=rank), async_op=True).wait()
    dist.all_gather(parts, on(device, 2, value=rank))
    dist.reduce_scatter_tensor(piece, on(device, 3 * n, value=1))
    dist.broadcast(first, n - 1)
    assert whole.cpu().tolist() == [float(r) for r in range(n) for _ in range(2)] == [x for part in parts for x in part.cpu().tolist()]
    assert piece.cpu().tolist() == [n] * 3 and first.cpu().tolist() == [n - 1] * 5
    swapped, uneven = on(device, n), on(device, n * (rank + 1))
    dist.all_to_all_single(swapped, on(device, n, value=rank))
    splits = [r + 1 for r in range(n)]
    dist.all_to_all_single(uneven, on(device, sum(splits), value=rank), [rank + 1] * n, splits)
    assert swapped.cpu().tolist() == list(range(n))
    assert uneven.cpu().tolist() == [float(r) for r in range(n) for _ in range(rank + 1)]
    gathered = [on(device, 2) for _ in range(n)] if rank == 0 else None
    dist.gather(on(device, 2, value=rank), gathered, 0)
    assert rank != 0 or [int(part.cpu()[1]) for part in gathered] == list(range(n))
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        a, b = on(device, 2, value=1), on(device, 3, value=2)
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    assert a.cpu()[1] == n and b.cpu()[2] == 2 * n
    host = torch.ones(2)
    dist.all_reduce(host)
    told = [None] * n
    dist.all_gather_object(told, {"rank": rank})
    dist.barrier()
    assert host[0] == n and told[1] == {"rank": 1} and complaints() == []


@needs_cuda
def test_every_call():
    run(N, collectives)


@needs_cuda
@newer
@pytest.mark.parametrize("backend", ["cpu:tutti,cuda:tutti", "cpu:gloo,cuda:tutti"])
def test_every_call_through_torchs_dispatcher(backend):
    run(N, collectives, backend)


def streams(rank, n):
    device = here(rank)
    side, source = torch.cuda.Stream(), torch.full((100_000,), float(rank)).pin_memory()
    x, copy, twice = torch.empty_like(source, device=device), torch.empty_like(source, device=device), torch.empty_like(source, device=device)
    for turn in range(5):
        with torch.cuda.stream(side):
            x.copy_(source, non_blocking=True)
            work = dist.all_reduce(x, async_op=True)  # after the copy, on another stream
            work.wait()
            copy.copy_(x)
            dist.all_reduce(x)  # on this one
            twice.copy_(x)
        torch.cuda.current_stream().wait_stream(side)
        assert set(copy.cpu().tolist()) == {n * (n - 1) / 2} and set(twice.cpu().tolist()) == {n * n * (n - 1) / 2}, turn
        assert work.is_completed() and work.is_success()
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda done: torch.empty_like(x).copy_(done.value()[0]))
    assert future.wait().cpu()[-1] == n * n * n * (n - 1) / 2
    assert complaints() == []


@needs_cuda
@newer
def test_calls_are_in_the_order_of_streams():
    run(N, streams)


def kept(rank, n):
    device = here(rank)
    junk, works = on(device, 50_000, value=-1), []
    for turn in range(8):
        x = on(device, 50_000, value=turn)
        works.append(dist.all_reduce(x, async_op=True))
        before = x.data_ptr()
        del x
        other = torch.empty(50_000, device=device)  # the allocator gives what is free
        assert other.data_ptr() != before
        other.copy_(junk)
    for turn, work in enumerate(works):
        work.wait()
        assert set(work.result()[0].cpu().tolist()) == {turn * n}
    assert complaints() == []


@needs_cuda
@newer
def test_memory_stays_while_calls_use_it():
    run(N, kept)


def messages(rank, n):
    device = here(rank)
    got, sent = on(device, 6), on(device, 6, value=rank)
    for _ in range(2):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + 1) % n), dist.P2POp(dist.irecv, got, (rank - 1) % n)]):
            work.wait()
        assert got.cpu().tolist() == [(rank - 1) % n] * 6
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(sent if rank == 0 else got, 1 - rank)
        assert rank == 0 or got.cpu().tolist() == [0.0] * 6
    dist.barrier()
    assert complaints() == []


@needs_cuda
@newer
def test_messages():
    run(N, messages)


def captured(rank, n):
    """By the runtime itself, as torch's own graphs begin with a kernel."""
    device = here(rank)
    runtime, graph, executable = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}"), ctypes.c_void_p(), ctypes.c_void_p()
    x, y, side = on(device, 10), on(device, 10), torch.cuda.Stream()
    handle = ctypes.c_void_p(side.cuda_stream)
    with raises(RuntimeError, "before the capture"), torch.cuda.stream(side):
        assert runtime.cudaStreamBeginCapture(handle, 0) == 0
        try:
            dist.all_reduce(x)
        finally:
            assert runtime.cudaStreamEndCapture(handle, ctypes.byref(graph)) == 0
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True)  # is still to be let go of
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        assert runtime.cudaStreamBeginCapture(handle, 0) == 0
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        y.copy_(x)
        assert runtime.cudaStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert work.is_completed()
    assert runtime.cudaGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)) == 0
    for turn in range(3):
        x.copy_(torch.full((10,), turn + 1.0))
        torch.cuda.synchronize()
        assert runtime.cudaGraphLaunch(executable, handle) == 0
        side.synchronize()
        assert y.cpu().tolist() == [(turn + 1.0) * n * n] * 10, (turn, y)
    dist.all_reduce(x)
    assert x.cpu()[0] == 3 * n ** 3
    assert runtime.cudaGraphExecDestroy(executable) == 0 and runtime.cudaGraphDestroy(graph) == 0
    dist.barrier()


@needs_cuda
@newer
def test_calls_become_part_of_graphs():
    run(2, captured)


def failures(rank, n):
    device = here(rank)
    x = on(device, 3, value=1)
    dist.all_reduce(x)
    with raises(ValueError, "the CPU", "cuda:"):
        dist.all_gather_into_tensor(on(device, 3 * n), torch.ones(3))
    with raises(ValueError, "a rank that the call names"):
        dist.recv(x)
    with raises(ValueError, "sparse tensors of the CPU"):
        entries = torch.tensor([[0, 2]]).to(device), on(device, 2)
        dist.all_reduce(torch.sparse_coo_tensor(*entries, (5,), is_coalesced=True, check_invariants=False))
    dist.barrier()
    if rank == n - 1:
        os._exit(7)
    with raises(dist.DistBackendError, "all_reduce", f"rank {n - 1}"):
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            pass
        work.wait()
    os._exit(0)


@needs_cuda
@newer
def test_bad_calls_and_deaths():
    run(N, failures, expect={N - 1: 7})


def late(rank, n):
    device = here(rank)
    x = on(device, 3, value=1)
    dist.all_reduce(x)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
        with raises(dist.DistBackendError, "all_reduce", "rank 1"):
            work = dist.all_reduce(x, async_op=True)
            while not work.is_completed():
                pass
            work.wait()
        with raises(dist.DistBackendError, "all_reduce"):
            dist.all_reduce(x)
        store.set("over", "yes")
    store.wait(["over"])
    os._exit(0)


@needs_cuda
@newer
def test_a_rank_that_is_late_is_named_at_the_deadline():
    run(2, late)


def trained(rank, n):
    device = here(rank)
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 3)).to(device)
    parallel = torch.nn.parallel.DistributedDataParallel(plain, device_ids=[device.index])
    for step in range(3):
        data = [torch.full((2, 64), (r + 1.0) * (step + 1), device=device) for r in range(n)]
        parallel.zero_grad()
        parallel(data[rank]).sum().backward()
        expected = torch.autograd.grad(sum(plain(part).sum() for part in data) / n, list(plain.parameters()))
        for parameter, gradient in zip(parallel.parameters(), expected):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-3)


@needs_cuda
@pytest.mark.skipif(PRETENDED, reason="kernels of torch do not run there")
def test_data_parallel():
    run(2, trained)
