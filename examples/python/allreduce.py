"""The sum over all ranks.  tutti-run -n 4 python examples/python/allreduce.py"""
import numpy
import tutti

with tutti.Communicator.from_env() as comm:
    x = numpy.full(4, comm.rank + 1, "float32")
    comm.all_reduce(x)
    print(f"rank {comm.rank} of {comm.size}: sum {x[0]:g}")
