"""tutti-doctor between two hosts: what it says of a way that is open, of firewalls in either direction, and of packets too
large for the way."""
import json
import time
import unittest

import suite
from hosts import Hosts
from network_test import lacks

LATE = 60


class Doctor(suite.Case):
    def ask(self, made):
        """Findings of host 0 about host 1, by direction."""
        program = suite.program("tutti-doctor")
        server = made.start(1, [program, "--serve", "--once"], {})
        until = time.monotonic() + LATE
        while True:
            status, text = made.start(0, [program, "--json", "--reach", made.addresses(1)[0]], {}).wait(LATE)
            found = json.loads(text[text.index("["):text.rindex("]") + 1])
            if "refused" not in found[0]["what"] or time.monotonic() > until:  # else it does not listen yet
                break
            time.sleep(0.1)
        server.end()
        return status, {f["subject"].rsplit(" ", 1)[0]: f for f in found}

    def test_open(self):
        with Hosts(2, family="inet") as made:
            status, found = self.ask(made)
            self.assertEqual((status, {f["verdict"] for f in found.values()}), (0, {"fine"}), found)
            self.assertEqual(set(found), {"from here to", "from there to"})

    @lacks("nft")
    def test_firewall(self):
        rule = "tcp dport != 29600 tcp flags \\& '(syn|ack)' == syn"
        for closed, direction in ((1, "from here to"), (0, "from there to")):
            with self.subTest(direction=direction), Hosts(2, family="inet") as made:
                made.drop(closed, rule)
                status, found = self.ask(made)
                self.assertEqual(status, 1)
                self.assertEqual({d for d, f in found.items() if f["verdict"] == "broken"}, {direction}, found)
                self.assertIn("no answer", found[direction]["what"])
                self.assertIn(made.addresses(closed)[0], found[direction]["remedy"])

    @lacks("nft")
    def test_large_packets_do_not_pass(self):
        with Hosts(2, family="inet") as made:
            made.check(0, "ip link set eth0 gso_max_segs 1")
            made.drop(1, "meta length \\> 1000")
            status, found = self.ask(made)
            self.assertEqual(status, 1)
            self.assertIn("messages of 8 bytes pass", found["from here to"]["what"])
            self.assertIn("MTU", found["from here to"]["remedy"])


if __name__ == "__main__":
    suite.main()
