"""tutti-doctor as a user calls it.  Usage: FILE TUTTI_DOCTOR"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

DOCTOR = sys.argv.pop(1)
SECONDS = 120


def run(*arguments, prefix=(), **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TUTTI_", "NCCL_"))} | variables
    return subprocess.run([*prefix, DOCTOR, *arguments], capture_output=True, text=True, timeout=SECONDS, env=env)


class Doctor(unittest.TestCase):
    def findings(self, *arguments, status=None, **more):
        done = run("--json", *arguments, **more)
        self.assertIn(done.returncode, (0, 1) if status is None else (status,), done.stdout + done.stderr)
        return json.loads(done.stdout)

    def about(self, findings, subject, part=""):
        found = [f for f in findings if f["subject"] == subject and part in f["what"]]
        self.assertTrue(found, f"nothing of '{subject}', '{part}' in {findings}")
        return found[0]

    def test_all_of_this_machine(self):
        done = run()
        self.assertIn(done.returncode, (0, 1), done.stderr)
        for section in ("This host", "Memory that ranks share", "Network", "Devices", "Settings", "Ranks on this host"):
            self.assertRegex(done.stdout, f"(?m)^{section}$")
        self.assertRegex(done.stdout, r"(?m)^  fine    \d ranks, shm: AllReduce of 8 B in \d.* us, of 16 MiB at .* right$")
        quiet = run("--quiet", "--only", "sharing")
        self.assertNotIn("fine  ", quiet.stdout)

    def test_variables(self):
        found = self.findings("--only", "settings", TUTTI_TIMEOUT="5", NCCL_SOCKET_IFNAME="eth0", status=0)
        self.assertIn("did you mean TUTTI_TIMEOUT_MS?", self.about(found, "variables", "TUTTI_TIMEOUT ")["what"])
        self.assertIn("export TUTTI_SOCKET_IFNAME=", self.about(found, "variables", "NCCL_SOCKET_IFNAME")["remedy"])
        found = self.findings("--only", "settings", TUTTI_TRANSPORTS="shn", status=1)
        self.assertEqual(self.about(found, "variables", "shn")["verdict"], "broken")

    def test_calibration(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "kept")
            at = {"TUTTI_CALIBRATION": file}
            self.assertIn("not measured yet", self.about(self.findings("--only", "settings", **at), "calibration")["what"])
            with open(file, "w") as f:
                f.write("nonsense\n")
            self.assertIn(f"rm {file}", self.about(self.findings("--only", "settings", **at), "calibration")["remedy"])

    def test_interface_that_is_not_there(self):
        found = self.findings("--only", "network", TUTTI_SOCKET_IFNAME="nonesuch0", status=1)
        self.assertIn("nonesuch0", self.about(found, "interfaces")["what"])

    def test_limits(self):
        found = self.findings("--only", "sharing", prefix=("sh", "-c", 'ulimit -n 256; exec "$@"', "sh"))
        self.assertIn("at most 256", self.about(found, "open files")["what"])

    def test_ranks_that_cannot_come_up(self):
        found = self.findings("--only", "ranks", TUTTI_SOCKET_IFNAME="nonesuch0", TUTTI_TRANSPORTS="tcp", status=1)
        self.assertEqual(len(found), 1)
        self.assertIn("nonesuch0", found[0]["what"])

    def test_command_line(self):
        for arguments in (["--only", "everything"], ["--once"], ["--serve", "--reach", "localhost"], ["--port", "-1"]):
            done = run(*arguments)
            self.assertNotIn(done.returncode, (0, 1), arguments)
            self.assertTrue(done.stderr, arguments)

    # ---- Two hosts, which are both this one.

    def serve(self, *arguments):
        server = subprocess.Popen([DOCTOR, "--serve", "--port", "0", *arguments], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        said = server.stdout.readline()
        return server, re.search(r"THIS_HOST:(\d+)$", said)[1]

    def test_reach(self):
        server, port = self.serve("--once")
        for f in self.findings("--reach", f"127.0.0.1:{port}", status=0):
            self.assertRegex(f["subject"], "^from (here|there) to ")
            self.assertRegex(f["what"], r"^8 bytes there and back in \d+\.\d us, large messages at \d+\.\d+ GB/s$")
        self.assertEqual(server.wait(SECONDS), 0)

    def test_strangers_do_not_end_the_server(self):
        server, port = self.serve()
        for said in (b"", b"GET / HTTP/1.0\r\n\r\n", b"x" * 10000, b"tutti-doctor 1 100\nend\n"):
            with socket.create_connection(("127.0.0.1", int(port))) as stranger:
                stranger.sendall(said)
        self.findings("--reach", f"localhost:{port}", status=0)
        self.assertIsNone(server.poll())

    def test_nobody_and_somebody_else_there(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            threading.Thread(target=lambda: other.accept()[0].sendall(b"SSH-2.0\r\n"), daemon=True).start()
            self.assertIn("no tutti-doctor", self.findings("--reach", f"127.0.0.1:{port}", status=1)[0]["what"])
        found = self.findings("--reach", f"127.0.0.1:{port}", status=1)[0]
        self.assertIn("refused", found["what"])
        self.assertIn("--serve", found["remedy"])
        for server in ("", "127.0.0.1:0", "127.0.0.1:x"):
            self.findings("--reach", server, status=1)


if __name__ == "__main__":
    unittest.main()
