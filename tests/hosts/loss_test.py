"""What networks do to packets and connections while ranks work: loss, another order, doubles, cables that are pulled for a
while or for good, and tutti-chaos between hosts, which resets, closes and damages connections."""
import os
import re
import time
import unittest

import suite
from hosts import Hosts
from network_test import lacks

QUICK = {"TUTTI_TIMEOUT_MS": "20000"}
LATE = 90
MADE_AGAIN = r"control connection to rank \d broke \(.*\) and is back after \d+ ms"
# What ranks say of a host, before it counts as dead.
SILENT = r"host {host} has answered rank \d nothing for \d+ ms"


def rule_of_output(kind, rule):
    return (f"nft add table ip out; nft add chain ip out o '{{ type {kind} hook output priority 0; }}';"
            f"nft add rule ip out o {rule} || exit 1;")


# What is sent in one piece is also cut by the card, as wires see it.
NO_OFFLOAD = "ip link set eth0 gso_max_segs 1"


class Losses(suite.Case):
    def steady(self, made, layout, seconds, bytes_=1 << 20, common=None):
        command = [suite.program("steady_ranks"), str(seconds), str(bytes_)]
        return suite.start(made, layout, command, common=QUICK | (common or {}))

    def all_go_on(self, jobs):
        """Every element was right; what all ranks said."""
        said = []
        ended = [job.wait(LATE) for job in jobs]
        all_ranks = "\n".join(f"rank {rank}: {text}" for rank, (_, text) in enumerate(ended))
        for status, text in ended:
            self.assertEqual(status, 0, all_ranks)
            said.append(text)
        self.assertRegex(said[0], r"ok, \d+ calls, longest \d+ ms")
        return said

    def on_all(self, made, command):
        for host in range(made.n):
            made.check(host, command)

    # ---- Packets.

    @lacks("nft")
    def test_loss(self):
        for of_thousand in (1, 10, 50):
            with self.subTest(of_thousand=of_thousand), Hosts(2, family="inet") as made:
                self.on_all(made, NO_OFFLOAD)
                for host in (0, 1):
                    made.drop(host, f"numgen random mod 1000 \\< {of_thousand}")
                self.all_go_on(self.steady(made, [1, 2], 2, 200_000))

    @lacks("nft")
    def test_doubles(self):
        with Hosts(2, family="inet") as made:
            self.on_all(made, NO_OFFLOAD)
            for host in (0, 1):
                other = made.addresses(1 - host)[0]
                made.check(host, rule_of_output("filter", f"ip daddr {other} numgen random mod 10 == 0 dup to {other}"))
            self.all_go_on(self.steady(made, [1, 1], 2))

    @lacks("nft")
    @lacks("tc")
    def test_another_order(self):
        """One packet in ten goes over another cable, which is slow."""
        with Hosts(2, family="inet", dead_ends=("aaa0",)) as made:
            made.plug()
            self.on_all(made, NO_OFFLOAD)
            for host in (0, 1):
                other = made.addresses(1 - host)[0]
                made.check(host, rule_of_output("route", f"ip daddr {other} numgen random mod 10 == 0 meta mark set 7") +
                           "ip rule add fwmark 7 table 100;"
                           f"ip route add table 100 {other} via 10.78.0.{2 - host} dev aaa0;"
                           "tc qdisc add dev aaa0 root tbf rate 100mbit burst 4kb latency 400ms")
            self.all_go_on(self.steady(made, [1, 1], 2, common={"TUTTI_SOCKET_IFNAME": "eth0"}))
            for host in (0, 1):
                late = int(re.search(r"Sent \d+ bytes (\d+) pkt", made.check(host, "tc -s qdisc show dev aaa0"))[1])
                self.assertGreater(late, 20)

    # ---- Cables.

    @lacks("nft")
    def test_a_cable_that_is_pulled_for_five_seconds(self):
        with Hosts(2, family="inet") as made:
            jobs = self.steady(made, [1, 2], 10)
            self.all_work(jobs)
            for host in (0, 1):
                made.drop(host, "iifname eth0")
            time.sleep(5)
            for host in (0, 1):
                made.heal(host)
            said = self.all_go_on(jobs)
            self.assertGreater(int(re.search(r"longest (\d+) ms", said[0])[1]), 3000)
            for text, other in zip(said, (r"node1 \(ranks 1 and 2\)", r"node0 \(rank 0\)", r"node0 \(rank 0\)")):
                self.assertRegex(text, rf"{SILENT.format(host=other)}(.|\n)*host {other} answers again")

    @lacks("nft")
    def test_a_silent_host_is_named_before_it_counts_as_dead(self):
        """By a warning of every rank, whether it is linked with it or not (rank 1), and by tutti-top; the error follows."""
        if not os.path.exists(suite.program("tutti-top")):
            self.skipTest("no tutti-top")
        with Hosts(6, family="inet") as made:
            runtime = f"{made.folder}/runtime"
            os.mkdir(runtime, 0o700)
            jobs = self.steady(made, [1] * 6, 60, common={"XDG_RUNTIME_DIR": runtime})
            self.all_work(jobs)
            self.assertRegex(self.top(made, runtime, "6 ranks"), r"(?m)^ +4 ")
            for host in range(6):
                made.drop(host, "iifname eth0" if host == 4 else "ip saddr 10.77.0.5")
            self.assertRegex(self.top(made, runtime, "silent for"), r"(?m)^ +4 .*does not answer; its host has been silent for \d")
            for rank, job in enumerate(jobs):
                status, text = job.wait(suite.SECONDS)
                self.assertNotIn(status, (0, None), text)
                silent = SILENT.format(host=r"node4 \(rank 4\)" if rank != 4 else r"node\d \(rank \d\)")
                self.assertRegex(text, silent + r"(.|\n)*rank \d .*is gone: .*Connection timed out")

    def top(self, made, runtime, pattern):
        """What tutti-top says on node0 once that is in it, or once the job is over."""
        text, seen = "", False
        for _ in range(200):
            if re.search(pattern, text):
                break
            job = made.start(0, [suite.program("tutti-top"), "--once"], {"XDG_RUNTIME_DIR": runtime})
            status, text = job.wait(LATE)
            if status != 0 and seen:
                break
            seen = seen or status == 0
        return text

    @lacks("nft")
    def test_a_host_that_falls_silent_is_gone(self):
        for gone_ms in (3000, 8000):
            with self.subTest(gone_ms=gone_ms), Hosts(2, family="inet") as made:
                jobs = self.steady(made, [1, 1], 60, common={"TUTTI_HOST_GONE_MS": str(gone_ms)})
                self.all_work(jobs)
                for host in (0, 1):
                    made.drop(host, "iifname eth0")
                began = time.monotonic()
                for rank, job in enumerate(jobs):
                    status, text = job.wait(suite.SECONDS)
                    self.assertNotEqual(status, 0, text)
                    self.assertRegex(text, rf"rank {1 - rank} .*is gone: .*Connection timed out")
                print(f"TUTTI_HOST_GONE_MS={gone_ms}: told after {time.monotonic() - began:.1f} s")

    @lacks("nft")
    def test_one_of_two_interfaces_falls_silent(self):
        with Hosts(2, family="inet", dead_ends=("aaa0",)) as made:
            made.plug()
            jobs = self.steady(made, [1, 1], 12)  # longer than a silent host is waited for
            self.all_work(jobs)
            before = min(made.sent())
            for host in (0, 1):
                made.drop(host, "iifname aaa0")
            time.sleep(3.5)
            self.assertGreater(min(made.sent()) - before, 1 << 20)  # over the other one
            said = self.all_go_on(jobs)  # for as long as it stays silent
            for text in said:
                self.assertLessEqual(len(re.findall("s connection .* is back", text)), 1, said)
                self.assertLessEqual(len(re.findall("control connection .* is back", text)), 1, said)
            self.assertRegex("".join(said), r"stalled \(nothing was acknowledged for \d+ ms\) and is back after")
            self.assertRegex("".join(said), MADE_AGAIN)

    @lacks("nft")
    def test_a_cable_that_is_pulled_for_good(self):
        with Hosts(2, family="inet") as made:
            jobs = self.steady(made, [1, 1], 60, common={"TUTTI_TIMEOUT_MS": "5000"})
            self.all_work(jobs)
            for host in (0, 1):
                made.drop(host, "iifname eth0")
            for rank, (status, text) in enumerate([job.wait(LATE) for job in jobs]):
                self.assertNotIn(status, (0, None), text)
                self.assertRegex(text, f"rank {1 - rank} ")

    # ---- Connections, by the relay.

    def between(self, made, *options):
        """The relay takes what comes to node1."""
        relay = made.start(1, ["sh", "-c", 'echo $$ >/run/relay; exec "$@"', "sh", suite.program("tutti-chaos"), "--listen",
                               "10.77.0.2:7000", *options])
        self.addCleanup(relay.end)
        made.check(1, "until grep -q ':1B58 ' /proc/net/tcp; do sleep 0.02; done")
        made.check(1, "nft add table ip chaos; nft add chain ip chaos in '{ type nat hook prerouting priority -100; }';"
                      "nft add rule ip chaos in iifname eth0 tcp dport 1024-65535 redirect to :7000")
        return relay

    def relayed(self, options, layout=(1, 1), seconds=2, common=None):
        """What all ranks said, and the relay."""
        with Hosts(len(layout), family="inet") as made:
            relay = self.between(made, *options)
            said = self.all_go_on(self.steady(made, list(layout), seconds, common=common))
            made.check(1, "kill -TERM $(cat /run/relay)")
            status, log = relay.wait(30)
            self.assertEqual(status, 0, log)
            return said, log

    @lacks("nft")
    def test_connections_that_break(self):
        for options, pattern in ((("--reset-every", "8M"), ": reset"), (("--close-every", "8M"), "closed in this direction"),
                                 (("--flip-every", "8M"), "flipped"),
                                 (("--split", "5000", "--reset-every", "16M", "--flip-every", "16M"), "flipped|reset")):
            with self.subTest(options=options):
                said, log = self.relayed(("--only", "stream", "--seed", "5", "--most", "12", *options))
                self.assertRegex(log, pattern)
                self.assertRegex("".join(said), r"broke \(.*\) and is back after \d+ ms; \d+ bytes are sent again")

    @lacks("nft")
    def test_connections_that_break_before_a_message_is_through(self):
        """Each carries less than a record: what is through of one counts; and one line tells of many breaks."""
        said, log = self.relayed(("--only", "stream", "--seed", "7", "--reset-every", "40K", "--quiet"), seconds=3)
        calls = int(re.search(r"ok, (\d+) calls", said[0])[1])
        self.assertGreater(calls, 0)
        for text in said:
            self.assertLessEqual(len(re.findall("is back", text)), 2, text)
        self.assertRegex("".join(said), r"made again \d+ times more|; \d+ others since")

    @lacks("nft")
    def test_three_ranks_on_two_hosts_whose_connections_break(self):
        self.relayed(("--only", "stream", "--seed", "6", "--most", "12", "--reset-every", "8M"), layout=(1, 2))

    @lacks("nft")
    def test_connections_that_are_slow(self):
        for options in (("--delay", "3", "--jitter", "5"), ("--split", "1000"), ("--coalesce", "30000"), ("--bandwidth", "20M"),
                        ("--stall-every", "4M", "--stall-ms", "300")):
            with self.subTest(options=options):
                said, _ = self.relayed(options, seconds=1)
                self.assertNotIn("is back", "".join(said))

    @lacks("nft")
    def test_where_nothing_is_made_again_a_reset_is_an_error_that_names_the_rank(self):
        with Hosts(2, family="inet") as made:
            self.between(made, "--only", "stream", "--reset-every", "4M", "--quiet")
            for rank, (status, text) in enumerate(
                    [job.wait(LATE) for job in self.steady(made, [1, 1], 60, common={"TUTTI_RECONNECT": "none"})]):
                self.assertNotIn(status, (0, None), text)
                self.assertRegex(text, r"rank [01] ")

    @lacks("nft")
    def test_control_connections_that_break(self):
        for options in (("--reset-every", "1K"), ("--close-every", "1K")):
            with self.subTest(options=options):
                said, _ = self.relayed(("--only", "overlay", "--seed", "3", "--most", "12", *options), layout=(2, 3))
                self.assertRegex("".join(said), MADE_AGAIN)

    @lacks("nft")
    def test_control_connections_that_are_damaged_are_an_error_that_names_the_rank(self):
        with Hosts(2, family="inet") as made:
            self.between(made, "--only", "overlay", "--quiet", "--flip-every", "2K")
            for rank, (status, text) in enumerate([job.wait(LATE) for job in self.steady(made, [1, 1], 60)]):
                self.assertNotIn(status, (0, None), text)
                self.assertRegex(text, r"rank \d ")

    @lacks("nft")
    def test_a_firewall_that_resets_what_it_does_not_know_and_a_cable_that_is_pulled_behind_it(self):
        with Hosts(2, family="inet") as made:
            jobs = self.steady(made, [1, 2], 8)
            self.all_work(jobs)
            self.on_all(made, "nft add table inet resets; nft add chain inet resets in '{ type filter hook input priority 0; }'; "
                              "nft add rule inet resets in iifname eth0 tcp flags \\& \\(syn\\|rst\\) == 0 reject with tcp reset")
            time.sleep(1.3)  # every rank has sent a heartbeat
            for host in (0, 1):
                made.drop(host, "iifname eth0")
            self.on_all(made, "nft delete table inet resets")
            time.sleep(3)
            for host in (0, 1):
                made.heal(host)
            self.assertRegex("".join(self.all_go_on(jobs)), MADE_AGAIN)


if __name__ == "__main__":
    suite.main()
