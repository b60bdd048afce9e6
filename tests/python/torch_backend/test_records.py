"""The record of a process's last operations, and what torch's own analysis of such records finds in it."""
import importlib.util
import json
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from programs import environment, python
from ranks import raises, run

import tutti.torch


def operations(folder):
    def body(rank, n):
        dist.all_reduce(torch.ones(2, 3))
        work = dist.all_gather_into_tensor(torch.empty(n * 4, dtype=torch.bfloat16), torch.ones(4, dtype=torch.bfloat16), async_op=True)
        work.wait()
        if rank == 0:
            dist.send(torch.ones(5), 1)
        elif rank == 1:
            dist.recv(torch.ones(5), 0)
        group = dist.new_group([0, n - 1])
        if rank in (0, n - 1):
            dist.broadcast(torch.ones(7, dtype=torch.int64), 0, group=group)
        tutti.torch.dump_flight_recorder(folder / "trace_{rank}")
        assert tutti.torch.dump_flight_recorder(f"{folder}/shown{{rank}}.json") == f"{folder}/shown{rank}.json"
    return body


def entries_of(record, name):
    return [entry for entry in record["entries"] if entry["profiling_name"] == f"tutti:{name}"]


def test_a_record_says_what_was_called(tmp_path):
    run(3, operations(tmp_path))
    record = pickle.loads((tmp_path / "trace_0").read_bytes())
    (reduced,), (gathered,), (sent,) = (entries_of(record, name) for name in ("all_reduce", "all_gather", "send 0->1"))
    assert reduced["process_group"][1] == "default_pg" and reduced["input_sizes"] == reduced["output_sizes"] == [[2, 3]]
    assert reduced["state"] == "completed" and reduced["time_discovered_completed_ns"] >= reduced["time_created_ns"]
    assert gathered["input_sizes"] == [[4]] and gathered["output_sizes"] == [[12]] and gathered["input_dtypes"] == ["BFloat16"]
    assert gathered["collective_seq_id"] > reduced["collective_seq_id"] and not gathered["is_p2p"]
    assert sent["is_p2p"] and sent["p2p_seq_id"] == 1 and sent["input_sizes"] == [[5]]
    assert len(entries_of(pickle.loads((tmp_path / "trace_1").read_bytes()), "recv 1<-0")) == 1
    (broadcast,) = entries_of(record, "broadcast")
    name = broadcast["process_group"][0]
    assert record["pg_config"][name]["ranks"] == "[0, 2]" and name != reduced["process_group"][0]
    assert record["pg_status"][name] == {"last_enqueued_collective": 1, "last_started_collective": 1, "last_completed_collective": 1}
    assert json.loads((tmp_path / "shown0.json").read_text())["entries"][0]["record_id"] == 0


def ranks_that_differ(folder):
    def body(rank, n):
        dist.all_reduce(torch.ones(10))
        with raises((dist.DistBackendError, ValueError)):
            dist.all_reduce(torch.ones(20 if rank == 1 else 10))
        tutti.torch.dump_flight_recorder(folder / "trace_{rank}")
        dist.group.WORLD.abort()
    return body


def analysis(folder):
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder, "--prefix", "trace_", "-o", folder / "made.db"]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(not importlib.util.find_spec("torch.distributed.flight_recorder"), reason="this torch has no such analysis")
def test_torchs_analysis_reads_records(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    run(3, operations(good))
    for path in good.glob("*.json"):
        path.unlink()
    run(3, ranks_that_differ(bad), destroy=False)
    told = analysis(good)
    assert "tutti:broadcast" in told and "error" not in told.lower(), told
    told = analysis(bad)
    assert "Collective sequence number: 2 has errors" in told and "Culprit rank 1" in told and "[[20]]" in told, told


def test_how_many_are_kept():
    program = ("import torch, torch.distributed as dist, tutti.torch\n"
               "dist.init_process_group('tutti', store=dist.HashStore(), rank=0, world_size=1)\n"
               "for size in range(10): dist.all_reduce(torch.ones(size))\n"
               "print([entry['input_sizes'] for entry in tutti.torch.flight_record()['entries']]); dist.destroy_process_group()")
    assert python("-c", program, TORCH_FR_BUFFER_SIZE="3").strip() == "[[[7]], [[8]], [[9]]]"
    assert python("-c", program, TORCH_FR_BUFFER_SIZE="0").strip() == "[]"
    program = ("try: import tutti.torch\n"
               "except ValueError as error: print(error)")
    assert "'many'" in python("-c", program, TORCH_FR_BUFFER_SIZE="many")
