#!/usr/bin/env python3
"""tutti-chaos as a user calls it.  usage: tool_test.py TUTTI_CHAOS"""
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest

TOOL = sys.argv.pop(1)
SECONDS = 60


class Relay:
    """The program in front of a listener that sends back what it gets."""

    def __init__(self, *options):
        self.target = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.echo, daemon=True).start()
        self.process = subprocess.Popen(
            [TOOL, "--listen", "127.0.0.1:0", "--to", "127.0.0.1:%d" % self.target.getsockname()[1], *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", self.process.stdout.readline())[1])

    def echo(self):
        while True:
            try:
                one, _ = self.target.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(one,), daemon=True).start()

    @staticmethod
    def answer(one):
        with one:
            try:
                while part := one.recv(65536):
                    one.sendall(part)
            except OSError:
                pass

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), SECONDS)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        """Its exit status and what it said."""
        self.target.close()
        _, said = self.process.communicate("quit\n", SECONDS)
        return self.process.returncode, said


def all_of(connection, most):
    got = b""
    while len(got) < most and (part := connection.recv(65536)):
        got += part
    return got


class Tool(unittest.TestCase):
    def answer(self, *arguments):
        done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def test_help_and_version(self):
        status, said = self.answer("--help")
        self.assertEqual(status, 0)
        for word in ("--listen", "--to", "--seed", "--flip-every", "USR1", "cut, heal, reset"):
            self.assertIn(word, said)
        self.assertRegex(self.answer("--version")[1], r"^tutti-chaos \d+\.\d+\.\d+\n$")

    def test_mistakes_are_named(self):
        listen = ("--listen", "127.0.0.1:0")
        for arguments, pattern in (
                ((), "--listen is required"),
                (("--listen", "here"), "--listen 'here' is not HOST:PORT, such as"),
                (("--listen", "127.0.0.1:70000"), "--listen '127.0.0.1:70000' is not HOST:PORT"),
                ((*listen, "--to", "no.such.host.invalid:1"), "no.such.host.invalid"),
                (("--listen", "192.0.2.1:5000"), "cannot listen on 192.0.2.1:5000"),
                ((*listen, "--flip-every", "often"), "--flip-every 'often' is not a size"),
                ((*listen, "--split", "10", "--coalesce", "10"), "exclude each other"),
                ((*listen, "--only", "streams"), "'streams' is no kind of connection; these are: rendezvous, overlay, stream"),
                ((*listen, "--delay", "-1"), "--delay")):
            with self.subTest(arguments=arguments):
                status, said = self.answer(*arguments)
                self.assertNotEqual(status, 0)
                self.assertIn(pattern, said)

    def test_every_misdeed(self):
        sent = bytes(range(256)) * 400
        for options, same, says in (
                (("--delay", "2", "--jitter", "3"), True, "delay 2 to 5 ms"),
                (("--split", "9K"), True, "pieces of up to 9216 bytes"),
                (("--coalesce", "50K"), True, "together by 51200 bytes"),
                (("--bandwidth", "2M"), True, "2097152 bytes a second"),
                (("--stall-every", "50K", "--stall-ms", "5"), True, "stalls"),
                (("--flip-every", "10K", "--seed", "3"), False, r"bit \d flipped"),
                (("--close-every", "10K"), False, "closed in this direction"),
                (("--reset-every", "10K"), False, "reset"),
                (("--reset-every", "10K", "--most", "1"), False, "that was the last of 1"),
                (("--flip-every", "1K", "--only", "stream"), True, "left alone")):
            with self.subTest(options=options):
                relay = Relay(*options)
                with relay.connect() as connection:
                    writer = threading.Thread(target=lambda: self.write(connection, sent))
                    writer.start()
                    try:
                        got = all_of(connection, len(sent))
                    except ConnectionResetError:
                        got = b""
                    writer.join()
                status, said = relay.end()
                self.assertEqual((status, got == sent), (0, same), said)
                self.assertRegex(said, says)
                self.assertRegex(said, r"^tutti-chaos \d+\.\d{3}: ")

    @staticmethod
    def write(connection, sent):
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def test_quiet(self):
        relay = Relay("--quiet", "--split", "100")
        with relay.connect() as connection:
            connection.sendall(b"x")
            self.assertEqual(connection.recv(1), b"x")
        self.assertEqual(relay.end(), (0, ""))

    def test_signals_and_commands_cut_and_heal(self):
        relay = Relay()
        with relay.connect() as connection:
            for cut, heal in ((lambda: relay.process.send_signal(signal.SIGUSR1), lambda: relay.process.send_signal(signal.SIGUSR2)),
                              (lambda: relay.command("cut"), lambda: relay.command("heal"))):
                cut()
                self.await_line(relay, "command: cut")
                connection.sendall(b"y")
                connection.settimeout(0.2)
                self.assertRaises(socket.timeout, connection.recv, 1)
                connection.settimeout(SECONDS)
                heal()
                self.assertEqual(connection.recv(1), b"y")
        relay.process.send_signal(signal.SIGTERM)
        self.assertEqual(relay.process.wait(SECONDS), 0)
        relay.end()

    def await_line(self, relay, part):
        while part not in (line := relay.process.stderr.readline()):
            self.assertNotEqual(line, "")


if __name__ == "__main__":
    unittest.main()
