"""One rank of tools/clients/jax: collectives of jax.lax in one compiled function each, on values that are exact.
usage: jax_rank.py RANK RANKS PORT gpu|cpu LIBRARY"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

COUNTS = [1, 1000, 65537]
TYPES = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.uint8]


class World:
    def __init__(self, rank, n):
        self.rank, self.n, self.checks = rank, n, 0
        self.mesh = Mesh(numpy.array(jax.devices()), ("ranks",))

    def same(self, function, mine, wanted, what):
        """function of the shards, of which `mine` is this rank's; wanted: this rank's shard of the result."""
        spec = PartitionSpec("ranks")
        across = jax.jit(jax.shard_map(function, mesh=self.mesh, in_specs=spec, out_specs=spec))
        whole = jax.make_array_from_process_local_data(NamedSharding(self.mesh, spec), mine)
        got = numpy.asarray(across(whole).addressable_shards[0].data)
        assert got.shape == wanted.shape and (got == wanted).all(), f"{what} on rank {self.rank}: got {got}, not {wanted}"
        self.checks += 1

    def full(self, count, value, dtype=jnp.float32):
        return numpy.full(count, value, dtype)

    def each(self, count):
        """What all ranks have, one after the other."""
        return numpy.repeat(numpy.arange(1, self.n + 1), count).astype(numpy.float32)


def reductions(w):
    total = w.n * (w.n + 1) // 2
    for dtype in TYPES:
        for count in COUNTS:
            for name, value in (("psum", total), ("pmax", w.n), ("pmin", 1)):
                collective = getattr(jax.lax, name)
                w.same(lambda x, f=collective: f(x, "ranks"), w.full(count, w.rank + 1, dtype),
                       w.full(count, value, dtype), f"{name} of {count} {dtype.__name__}")
    w.same(lambda x: jax.lax.psum_scatter(x, "ranks", tiled=True), w.full(10 * w.n, w.rank + 1), w.full(10, total),
           "psum_scatter")


def copies(w):
    for count in COUNTS:
        w.same(lambda x: jax.lax.all_gather(x, "ranks", tiled=True), w.full(count, w.rank + 1), w.each(count),
               f"all_gather of {count}")
    w.same(lambda x: jax.lax.all_to_all(x, "ranks", 0, 0, tiled=True), w.full(10 * w.n, w.rank + 1), w.each(10),
           "all_to_all")
    ring = [(r, (r + 1) % w.n) for r in range(w.n)]
    w.same(lambda x: jax.lax.ppermute(x, "ranks", ring), w.full(300, w.rank), w.full(300, (w.rank - 1) % w.n), "ppermute")


def library_of_calls():
    """All files of NCCL's name that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "libnccl" in line}
    return sorted(os.path.realpath(file) for file in files)


def main():
    rank, n, port, backend, library = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    jax.config.update("jax_platforms", "cuda" if backend == "gpu" else "cpu")
    if backend == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", n, rank, local_device_ids=[0] if backend == "gpu" else None)
    world = World(rank, n)
    for part in (reductions, copies):
        part(world)
    if backend == "gpu" and library_of_calls() != [library]:
        sys.exit(f"calls of NCCL may go to {library_of_calls()}, not to {library}: is LD_PRELOAD dropped on the way?")
    jax.distributed.shutdown()
    print(f"{world.checks} checks, JAX {jax.__version__}, {backend}")


if __name__ == "__main__":
    main()
