"""hosts.py itself: hosts are apart, cables are as asked for, and nothing stays behind."""
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import hosts
import suite

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts")
# Sends a number of bytes to whoever connects; fetches them and tells how many came.
SERVE = """import socket
listener = socket.create_server(("", 5000)); print("up", flush=True)
connection = listener.accept()[0]; connection.sendall(bytes(4 << 20))"""
FETCH = """import socket, sys
connection = socket.create_connection((sys.argv[1], 5000), 10); n = 0
while part := connection.recv(1 << 16): n += len(part)
print(n)"""


def processes_in(folder):
    """Processes that were started with the folder of some hosts."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                if folder in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


class Tool(suite.Case):
    def test_each_has_its_own(self):
        with hosts.Hosts(2) as made:
            made.check(0, "touch /dev/shm/mine /tmp/mine; sleep 1000 & ipcmk -Q")
            for what in ("hostname", "cat /proc/sys/kernel/random/boot_id", "ip -4 address show eth0",
                         "readlink /proc/self/ns/ipc"):
                self.assertNotEqual(made.check(0, what), made.check(1, what), what)
            self.assertEqual(made.check(1, "ls -A /dev/shm /tmp").split(), ["/dev/shm:", "/tmp:"])
            self.assertNotIn("sleep", made.check(1, "cat /proc/[0-9]*/cmdline"))
            self.assertEqual(made.check(1, ["getent", "ahostsv4", "node0"]).split()[0], "10.77.0.1")

    def fetch(self, made, address="node0"):
        served = made.start(0, [sys.executable, "-c", SERVE])
        made.check(0, "until grep -q ':1388 [0-9A-F:]* 0A' /proc/net/tcp; do sleep .01; done")
        status, text = made.start(1, [sys.executable, "-c", FETCH, address]).wait(60)
        served.end()
        return text if status == 0 else None

    def test_cables(self):
        with hosts.Hosts(3) as made:
            before = made.sent()
            self.assertEqual(self.fetch(made).strip(), str(4 << 20))
            sent = [after - then for after, then in zip(made.sent(), before)]
            self.assertGreater(sent[0], 4 << 20)
            self.assertLess(sent[2], 1 << 16)
            if shutil.which("tc"):
                made.shape(0, "50mbit")
                self.assertIn("rate 50Mbit", made.check(0, "tc class show dev eth0"))
                self.assertIn("rate 50Mbit", made.check("switch", "tc class show dev p0"))
                self.assertEqual(self.fetch(made).strip(), str(4 << 20))

    @unittest.skipIf(shutil.which("nft") is None, "no nft here: tools/install-dependencies hosts")
    def test_drops(self):
        with hosts.Hosts(2) as made:
            made.drop(0, "tcp dport 5000")
            asked = made.start(1, [sys.executable, "-c", FETCH.replace(", 10)", ", 2)"), "node0"])
            self.assertIn("timed out", asked.wait(60)[1])
            made.heal(0)
            self.assertEqual(self.fetch(made).strip(), str(4 << 20))

    def test_one_that_is_killed_leaves_nothing(self):
        tool = subprocess.Popen([sys.executable, TOOL, "2", "sh", "-c", "echo $TUTTI_TEST_HOSTS $$; exec sleep 1000"],
                                stdout=subprocess.PIPE, text=True)
        folder, sleeper = tool.stdout.readline().split()
        self.assertTrue(processes_in(folder))
        tool.kill()
        tool.wait()
        os.kill(int(sleeper), signal.SIGKILL)
        tool.stdout.close()
        until = time.monotonic() + 30
        while processes_in(folder) or os.path.exists(folder):
            self.assertLess(time.monotonic(), until, f"{folder} is still there")
            time.sleep(0.05)

    def test_commands(self):
        script = ('"$0" all sh -c "echo all:\\$(hostname)" && "$0" rsh 10.77.0.2 echo rsh:\\$\\(hostname\\) '
                  '&& "$0" on node1 sh -c "exit 3"')
        done = subprocess.run([TOOL, "2", "--inet", "sh", "-c", script, TOOL], capture_output=True, text=True)
        self.assertEqual(sorted(done.stdout.split()), ["all:node0", "all:node1", "rsh:node1"], done.stderr)
        self.assertEqual(done.returncode, 3)

    def test_two_at_once(self):
        with hosts.Hosts(1) as one, hosts.Hosts(1) as two:
            one.check(0, "touch /dev/shm/mine")
            self.assertEqual(two.check(0, "hostname; ls /dev/shm"), "node0\n")


if __name__ == "__main__":
    suite.main()
