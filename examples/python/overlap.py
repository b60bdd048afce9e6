"""A stream sums one array while the program computes the next.  tutti-run -n 2 python examples/python/overlap.py"""
import numpy
import tutti

with tutti.Communicator.from_env() as comm, tutti.Stream() as stream:
    parts = []
    for k in range(4):
        part = tutti.memory.empty(1 << 16)  # peers read it where it lies
        part[:] = numpy.sqrt(numpy.arange(part.size) + comm.rank + k)
        comm.all_reduce(part, stream=stream)  # returns at once
        parts.append(part)
    stream.synchronize()
    expected = sum(numpy.sqrt(numpy.arange(1 << 16, dtype="float32") + rank) for rank in range(comm.size))
    assert numpy.allclose(parts[0], expected, rtol=1e-5)
    print(f"rank {comm.rank} of {comm.size}: {len(parts)} sums")
