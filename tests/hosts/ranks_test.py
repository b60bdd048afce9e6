"""Ranks on several hosts, with the variables that launchers give: every collective is right, bytes between hosts go over
the cables, and those inside a host do not."""
import suite
from hosts import Hosts

HIERARCHICAL = ",".join(f"{collective}:hierarchical" for collective in
                        ("allreduce", "allgather", "reducescatter", "broadcast", "alltoall"))


def loopback(made, host):
    """Bytes that this host has sent to itself."""
    lines = made.check(host, "cat /proc/net/dev").splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[1])


class Ranks(suite.Case):
    def collectives(self, layout, variables, common=None, **options):
        """The bytes that each host sent to others, and to itself."""
        with Hosts(len(layout), **options) as made:
            command = [suite.program("hosts_ranks"), "all"]
            self.all_right(suite.start(made, layout, command, variables, common))
            return made.sent(), [loopback(made, host) for host in range(len(layout))]

    def test_variables_of_torchrun(self):
        for layout in ([1, 1], [2, 1], [3, 2, 1], [1, 3, 1, 2]):
            with self.subTest(layout=layout):
                sent, inside = self.collectives(layout, suite.torchrun)
                self.assertGreater(min(sent), 1 << 20)
                # Control messages only: what ranks of one host tell each other goes by shared memory.
                self.assertLess(max(inside), min(sent) / 8)

    def test_variables_of_slurm(self):
        for layout in ([2, 1], [1, 1, 2]):
            with self.subTest(layout=layout):
                sent, inside = self.collectives(layout, suite.slurm)
                self.assertGreater(min(sent), 1 << 20)
                self.assertLess(max(inside), min(sent) / 8)

    def test_hierarchies(self):
        for layout in ([2, 2], [1, 2, 2]):
            with self.subTest(layout=layout):
                self.collectives(layout, suite.torchrun, {"TUTTI_ALGO": HIERARCHICAL, "TUTTI_ALGO_STRICT": "1"})

    def test_eight_hosts(self):
        sent, _ = self.collectives([1] * 8, suite.torchrun)
        self.assertGreater(min(sent), 1 << 20)

    def test_without_shared_memory_bytes_go_over_the_loopback_interface(self):
        sent, inside = self.collectives([2, 1], suite.torchrun, {"TUTTI_TRANSPORTS": "tcp"})
        self.assertGreater(inside[0], sent[0] / 4)

    def test_addresses_of_one_family(self):
        for family in ("inet", "inet6"):
            with self.subTest(family=family):
                self.collectives([2, 1], suite.torchrun, family=family)


if __name__ == "__main__":
    suite.main()
