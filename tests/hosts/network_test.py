"""Networks as they are: interfaces that lead nowhere, one family of addresses, large frames, cables of different speed,
packets that get lost, and firewalls that drop without a word."""
import re
import shutil
import tempfile
import unittest

import suite
from hosts import Hosts

SHORT = {"TUTTI_TIMEOUT_MS": "10000"}
LATE = 60  # seconds for all ranks to have ended, who had 10: more, because machines may be busy
HINT = "check .*no firewall .*TUTTI_SOCKET_IFNAME"


def lacks(program):
    return unittest.skipIf(shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None,
                           f"no {program} here: tools/install-dependencies hosts")


class Networks(suite.Case):
    def collectives(self, made, layout, common=None, ranks=None):
        self.all_right(suite.start(made, layout, [suite.program("hosts_ranks")], common=common, ranks=ranks))

    def sums(self, made, layout, common=None, ranks=None):
        self.all_right(suite.start(made, layout, [suite.program("example_allreduce")], common=common, ranks=ranks))

    def all_say(self, made, layout, pattern, program="example_allreduce", **more):
        """All ranks fail before it is late, with that reason."""
        jobs = suite.start(made, layout, [suite.program(program)], **({"common": SHORT} | more))
        for rank, (status, text) in enumerate([job.wait(LATE) for job in jobs]):
            with self.subTest(rank=rank):
                self.assertIsNotNone(status, f"rank {rank} has not ended: {text}")
                self.assertNotEqual(status, 0)
                self.assertRegex(text, pattern)

    def cut(self, made, a, b):
        """Neither of two hosts hears the other."""
        for host, other in ((a, b), (b, a)):
            made.drop(host, f"ip saddr 10.77.0.{other + 1}")
            made.drop(host, f"ip6 saddr fd77::{other + 1}")

    # ---- What a connection is asked for.

    def test_congestion_control(self):
        with Hosts(2) as made:
            # Around a ring every rank has a neighbour on the other host.
            common = {"TUTTI_TRANSPORTS": "self,tcp", "TUTTI_LOG": "tcp:debug", "TUTTI_TCP_CONGESTION": "reno",
                      "TUTTI_ALGO": "allreduce:ring"}
            jobs = suite.start(made, [2, 1], [suite.program("example_allreduce")], common=common)
            texts = [job.wait(LATE) for job in jobs]
            for rank, (status, text) in enumerate(texts):
                self.assertEqual(status, 0, text)
                told = re.findall(r"peer (\d) lane \d+: congestion control (\w+), .* no busy poll", text)
                # Connections inside a host are not touched.
                self.assertEqual(set(told), {("2", "reno")} if rank < 2 else {("0", "reno"), ("1", "reno")}, text)
            self.all_say(made, [1, 1], "no tcp congestion control 'pigeon'; it has: .*reno",
                         common=SHORT | {"TUTTI_TCP_CONGESTION": "pigeon"})

    # ---- Which interface.

    def test_interfaces_that_lead_nowhere(self):
        for dead_ends in (("aaa0",), ("aaa0", "aab0", "aac0")):
            with self.subTest(dead_ends=dead_ends), Hosts(3, dead_ends=dead_ends) as made:
                self.sums(made, [1, 2, 1])
                before = made.sent()
                self.collectives(made, [2, 1, 1], {"TUTTI_SOCKET_IFNAME": "eth"})
                self.assertGreater(min(after - then for after, then in zip(made.sent(), before)), 1 << 20)
        with Hosts(2, family="inet6", dead_ends=("aaa0",)) as made:
            self.sums(made, [2, 1])

    def test_names_of_interfaces(self):
        with Hosts(2, dead_ends=("eth00", "aaa0"), interface="eth0") as made:
            for names in ("=eth0", "^aaa,eth00", "^=aaa0,eth00", "eth"):
                with self.subTest(names=names):
                    self.sums(made, [1, 1], {"TUTTI_SOCKET_IFNAME": names})
            self.all_say(made, [1, 1], r"no network interface matches TUTTI_SOCKET_IFNAME='=eth'.*eth0 \(10\.77\.0\.",
                         common=SHORT | {"TUTTI_SOCKET_IFNAME": "=eth"})

    def test_a_rank_whose_interface_leads_nowhere(self):
        with Hosts(2, dead_ends=("aaa0",)) as made:
            self.all_say(made, [1, 1], r"rank 1 .*rank 0 .*10\.78\.0\.\d:\d+.*" + HINT,
                         ranks={1: {"TUTTI_SOCKET_IFNAME": "=aaa0"}})

    # ---- What cables do.

    def test_large_frames(self):
        with Hosts(2, mtu=9000) as made:
            self.assertIn("mtu 9000", made.check(0, "ip link show eth0"))
            self.collectives(made, [2, 1])

    @lacks("tc")
    def test_cables_of_different_speed(self):
        with Hosts(3) as made:
            made.shape(0, "200mbit")
            made.shape(1, "1gbit")
            made.shape(2, "100mbit", both=False)
            self.collectives(made, [2, 1, 1])

    def said(self, made, hosts, common):
        """What ranks say of how they plan."""
        jobs = suite.start(made, [1] * hosts, [suite.program("example_allreduce")], common={"TUTTI_LOG": "plan:info"} | common)
        texts = [job.wait(LATE) for job in jobs]
        self.assertEqual([status for status, _ in texts], [0] * hosts, texts)
        return "".join(text for _, text in texts)

    def cables(self, made, hosts, word):
        """GB/s, as ranks say them."""
        found = r"links between hosts take [\d.]+ us and carry ([\d.]+) GB/s"
        return [float(number) for number in re.findall(found, self.said(made, hosts, {"TUTTI_LINK_PROBE": word}))]

    @lacks("tc")
    def test_cables_are_measured(self):
        for hosts in (2, 3):
            with self.subTest(hosts=hosts), Hosts(hosts) as made:
                made.shape(1, "200mbit")
                for word, measured in (("always", True), ("auto", False), ("off", False)):  # auto: with TUTTI_CALIBRATION=off
                    said = self.cables(made, hosts, word)
                    self.assertEqual(len(said), int(measured))  # rank 0 says it
                    for _ in range(3):  # a machine that is busy may not tell what the slow one carries
                        if measured and said[0] >= 0.1:
                            said = self.cables(made, hosts, word)
                    if measured:
                        self.assertLess(said[0], 0.1)  # of 0.025; the interfaces say 1.25
        with Hosts(2) as made:
            self.all_say(made, [1, 1], "TUTTI_LINK_PROBE='sometimes' is none of: auto, off, always",
                         common=SHORT | {"TUTTI_LINK_PROBE": "sometimes"})

    def test_virtual_cables_are_measured_by_default(self):
        with Hosts(2) as made, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            figures = {"TUTTI_CALIBRATION": f"{folder}/figures"}
            tried = "links between hosts take .* GB/s|no link between hosts could be measured"  # the machine may be busy
            self.assertRegex(self.said(made, 2, figures), tried)
            self.assertNotRegex(self.said(made, 2, figures | {"TUTTI_LINK_PROBE": "off"}), tried)

    @lacks("nft")
    def test_packets_that_get_lost(self):
        with Hosts(2) as made:
            for host in (0, 1):
                made.drop(host, "numgen random mod 100 \\< 2")
            self.collectives(made, [1, 2])

    # ---- Firewalls that drop.

    @lacks("nft")
    def test_ports_that_are_closed(self):
        with Hosts(3) as made:
            for host in range(3):
                made.drop(host, "tcp dport 32768-60999 tcp flags \\& \\(syn\\|ack\\) == syn")
            self.all_say(made, [1, 1, 1], r"rank \d .*rank \d .*10\.77\.0\.\d:\d+.*" + HINT)

    @lacks("nft")
    def test_neighbours_that_are_cut_off(self):
        with Hosts(3) as made:
            self.cut(made, 1, 2)
            self.all_say(made, [1, 1, 1], r"rank 2 .*rank 1 .*10\.77\.0\.[23]:\d+.*" + HINT)

    @lacks("nft")
    def test_two_that_meet_only_in_a_transfer(self):
        with Hosts(6) as made:  # where 1 and 4 are no neighbours
            self.cut(made, 1, 4)
            self.all_say(made, [1] * 6, r"rank [14] cannot be reached by rank [14] \(.*10\.77\.0\.[25]:\d+.*" + HINT,
                         program="hosts_ranks")

    @lacks("nft")
    def test_one_that_cannot_reach_the_rendezvous(self):
        with Hosts(3) as made:
            made.drop(0, "ip saddr 10.77.0.2")
            made.drop(0, "ip6 saddr fd77::2")
            self.all_say(made, [1, 1, 1], r"rank 1 got no answer from the rendezvous at .*10\.77\.0\.1:29500|"
                                          r"rank 1 has not come to the rendezvous .*firewall .*port 29500 of node0")


if __name__ == "__main__":
    suite.main()
