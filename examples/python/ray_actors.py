#!/usr/bin/env python3
"""Ray actors that are the ranks of a communicator: the largest eigenvalue of a matrix whose rows they share.

    python ray_actors.py --ranks 4 --kill 2      # with RAY_ADDRESS, on that cluster

One actor makes the unique id, and Ray hands it to the others as it does any object.  torch is not needed.
--kill N: actor N is killed in the middle; the others go on without it."""
import argparse

import numpy
import ray
import tutti
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ROWS, STEPS = 60, 50


def matrix():
    a = numpy.random.default_rng(0).random((ROWS, ROWS))
    return a + a.T


@ray.remote(num_cpus=1)
class Rank:
    def unique_id(self):
        return tutti.get_unique_id()

    def join(self, size, rank, unique_id):
        self.comm = tutti.Communicator.init(size, rank, unique_id)
        return ray.get_runtime_context().get_node_id()

    def largest_eigenvalue(self):
        """By the power method: each rank multiplies its rows, and all gather the product."""
        shares = numpy.array_split(matrix(), self.comm.size)
        counts = [len(share) for share in shares]
        x, product = numpy.ones(ROWS), numpy.empty(ROWS)
        for _ in range(STEPS):
            self.comm.all_gather_v(shares[self.comm.rank] @ x, product, counts)
            value = numpy.linalg.norm(product)
            x = product / value
        return value, self.comm.size

    def go_on(self):
        """After a rank has died: without it."""
        try:
            return self.largest_eigenvalue()
        except tutti.RemoteError:
            self.comm = self.comm.shrink(abort=True)
        return self.largest_eigenvalue()

    def leave(self):
        self.comm.destroy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kill", type=int)
    arguments = parser.parse_args()
    n = arguments.ranks
    ray.init()
    spread = placement_group([{"CPU": 1}] * n, strategy="SPREAD")
    actors = [Rank.options(scheduling_strategy=PlacementGroupSchedulingStrategy(spread, placement_group_bundle_index=i)).remote()
              for i in range(n)]
    unique_id = actors[0].unique_id.remote()
    nodes = ray.get([actor.join.remote(n, i, unique_id) for i, actor in enumerate(actors)])
    print(f"{n} actors on {len(set(nodes))} nodes")
    values = ray.get([actor.largest_eigenvalue.remote() for actor in actors])
    if arguments.kill is not None:
        ray.kill(actors.pop(arguments.kill))
        values += ray.get([actor.go_on.remote() for actor in actors])
    ray.get([actor.leave.remote() for actor in actors])
    expected = numpy.linalg.eigvalsh(matrix())[-1]
    for value, size in sorted(set(values), reverse=True, key=lambda found: found[1]):
        assert numpy.isclose(value, expected), (value, expected)
        print(f"{size} ranks: largest eigenvalue {value:.9f}, by numpy alone {expected:.9f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
