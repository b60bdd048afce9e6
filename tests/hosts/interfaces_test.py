"""Several interfaces of a host at once: connections by each of those that are named, every one of which carries what it
can; one that leads nowhere, that only some have, or that is cut."""
import time
import unittest

import suite
from hosts import Hosts
from network_test import lacks

BOTH = {"TUTTI_SOCKET_IFNAME": "eth0,eth1", "TUTTI_TIMEOUT_MS": "30000"}
LATE = 90
SOME = 64 << 10  # the least piece: more than what a cable carries that nobody uses


class Interfaces(suite.Case):
    def steady(self, made, seconds, common, bytes_=4 << 20, layout=(1, 1), ranks=None):
        """Starts ranks that check every element of what they call."""
        return suite.start(made, list(layout), [suite.program("steady_ranks"), str(seconds), str(bytes_)], common=common, ranks=ranks)

    def carried(self, made, before=(0, 0)):
        """Bytes that the least busy host has put on its first cable and on its second."""
        return [min(made.sent(dead_end)) - then for dead_end, then in zip((None, 0), before)]

    def run_and_count(self, made, common, **more):
        before = self.carried(made)
        self.all_right(self.steady(made, 2, common, **more), LATE)
        return self.carried(made, before)

    def shared_by_speed(self, carried):
        """Cables of 200 and 60 Mbit/s: the slow one carries at least half of its part, and does not hold up the other."""
        first, second = carried
        part = second / (first + second)  # 60 / 260 at best
        self.assertGreater(part, 60 / 260 / 2)
        self.assertLess(part, 1 / 3)

    @lacks("tc")
    def test_each_carries_what_it_can(self):
        with Hosts(2, family="inet", dead_ends=("eth1",)) as made:
            made.plug()
            for host in (0, 1):
                made.shape(host, "200mbit")
                made.shape(host, "60mbit", dead_end=0)
            for reconnect in ("hosts", "none"):
                with self.subTest(reconnect=reconnect):
                    self.shared_by_speed(self.run_and_count(made, BOTH | {"TUTTI_RECONNECT": reconnect}))
            # What is small goes by the first, and the slow one may be the first.
            first, second = self.run_and_count(made, BOTH | {"TUTTI_SOCKET_IFNAME": "eth1,eth0"})
            self.assertGreater(first / second, 2)
            # More connections than interfaces.
            self.shared_by_speed(self.run_and_count(made, BOTH | {"TUTTI_NSOCKETS": "4"}))

    def test_only_where_they_are_named_by_both(self):
        with Hosts(2, family="inet", dead_ends=("eth1",)) as made:
            made.plug()
            for common, ranks in (({}, None), ({"TUTTI_SOCKET_IFNAME": "=eth0"}, None), (BOTH, {1: {"TUTTI_SOCKET_IFNAME": "=eth0"}})):
                with self.subTest(common=common, ranks=ranks):
                    carried = self.run_and_count(made, {"TUTTI_TIMEOUT_MS": "30000"} | common, ranks=ranks)
                    self.assertGreater(max(carried), 4 << 20)
                    self.assertLess(min(carried), SOME)
            # A prefix that fits both; two ranks of a host each have theirs.
            carried = self.run_and_count(made, BOTH | {"TUTTI_SOCKET_IFNAME": "eth"}, layout=(2, 1))
            self.assertGreater(min(carried), SOME)

    def test_large_frames_and_ipv6(self):
        for family in ("inet6", "both"):
            with self.subTest(family=family), Hosts(2, family=family, mtu=9000, dead_ends=("eth1",)) as made:
                made.plug()
                self.assertIn("mtu 9000", made.check(0, "ip link show eth1"))
                common = BOTH | ({"TUTTI_SOCKET_FAMILY": "inet6"} if family == "both" else {})
                self.assertGreater(min(self.run_and_count(made, common)), SOME)

    def test_one_that_leads_nowhere(self):
        with Hosts(2, family="inet", dead_ends=("eth1",)) as made:  # which nobody plugs
            before = min(made.sent())
            self.all_right(self.steady(made, 1, BOTH), LATE)
            self.assertGreater(min(made.sent()) - before, 1 << 20)

    @lacks("nft")
    def test_one_that_is_cut(self):
        with Hosts(2, family="inet", dead_ends=("eth1",)) as made:
            made.plug()
            jobs = self.steady(made, 8, BOTH)
            self.all_work(jobs)
            time.sleep(1)
            before = self.carried(made)
            self.assertGreater(min(before), SOME)
            for host in (0, 1):
                made.drop(host, "iifname eth1")
            time.sleep(4)
            after = self.carried(made, before)
            self.assertGreater(after[0], 1 << 20)
            self.assertGreater(after[0], 4 * after[1])  # which is what was tried until it was given up
            self.all_right(jobs, LATE)


if __name__ == "__main__":
    suite.main()
