"""Several hosts on one machine: each has processes, network, name, shared memory and boot id of its own, and a cable to
one switch.  They are namespaces that live as long as the one that made them: nothing has a name outside of them but
a folder, so runs do not meet, and nothing stays when the maker dies.  Needs to be root."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.py")
NAMESPACES = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]
START_SECONDS = 30


def why_not():
    """Why hosts cannot be made here, or None."""
    if sys.version_info < (3, 9):
        return "this Python is older than 3.9"
    if os.geteuid() != 0:
        return "only root may make hosts"
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None:
            return f"no {program} here: tools/install-dependencies hosts"
    probe = ("mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && ip link add br0 type bridge"
             " && ip link add a0 type veth peer name b0")
    done = subprocess.run(NAMESPACES + ["sh", "-c", probe], capture_output=True, text=True)
    return None if done.returncode == 0 else "hosts are not allowed here: " + " ".join(done.stderr.split())


def connect(folder, name, command, environment, files, cwd, own_session=True):
    """Asks a host to run a command; the connection then carries its exit status, and ends it when it is closed.
    own_session=False: it stays in the session that made the hosts.  Linux shares processors among sessions first."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{folder}/{name}.socket")
    body = json.dumps({"command": command, "environment": environment, "folder": cwd,
                       "own_session": own_session}).encode()
    socket.send_fds(connection, [len(body).to_bytes(8, "little")], files)
    connection.sendall(body)
    return connection


class Running:
    """A command on a host, its output in one text."""

    def __init__(self, host, connection, output):
        self.host, self.connection, self.output = host, connection, output

    def wait(self, seconds):
        """Its exit status and output.  After that many seconds it is ended; the status is then None."""
        self.connection.settimeout(max(seconds, 0.01))
        try:
            status = self.connection.recv(1)
        except socket.timeout:
            status = b""
        text = self.said()
        self.end()
        return (status[0] if status else None), text

    def said(self):
        """Its output until now.  Read by position, as the command writes at an offset that it shares with us."""
        descriptor = self.output.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def end(self):
        self.connection.close()
        self.output.close()


class Hosts:
    """`n` hosts node0, node1, ...; a context manager.
    family      "inet", "inet6" or "both": the addresses that they have: 10.77.0.1, fd77::1 and so on
    mtu         of their cables
    dead_ends   interfaces, before the true one, that lead nowhere
    interface   the name of the true one
    containers  they have the boot id of this machine, and so know that they share its processors"""

    def __init__(self, n, family="both", mtu=1500, dead_ends=(), interface="eth0", containers=False):
        self.n, self.family, self.mtu, self.interface = n, family, mtu, interface
        self.folder, self.agents, self.stack = None, [], contextlib.ExitStack()
        self.dead_ends = dead_ends
        self.kind = ["container"] if containers else []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.folder = tempfile.mkdtemp(prefix="tutti-hosts-", dir="/var/tmp")
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            stack.callback(self._end)
            with open(f"{self.folder}/names", "w") as file:
                file.write("127.0.0.1 localhost\n::1 localhost\n")
                for host in range(self.n):
                    file.writelines(f"{address} {self.name(host)}\n" for address in self.addresses(host))
            for name in ["switch"] + [self.name(host) for host in range(self.n)]:
                self.agents.append(subprocess.Popen(
                    NAMESPACES + [sys.executable, "-I", AGENT, self.folder, name, f"{self.folder}/names", *self.kind],
                    stdin=subprocess.PIPE))
            self._wait_for_agents()
            self._plug()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _end(self):
        for agent in self.agents:
            agent.stdin.close()
        for agent in self.agents:
            try:
                agent.wait(10)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()

    def _wait_for_agents(self):
        until = time.monotonic() + START_SECONDS
        for agent, name in zip(self.agents, ["switch"] + [self.name(host) for host in range(self.n)]):
            while not os.path.exists(f"{self.folder}/{name}.socket"):
                if agent.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{name} has not come up")
                time.sleep(0.005)

    def _plug(self):
        lines = ["ip link add br0 type bridge", f"ip link set br0 mtu {self.mtu} up"]
        for host in range(self.n):
            net = f"/proc/{self._child(host + 1)}/ns/net"
            for i, interface in enumerate([*self.dead_ends, self.interface]):
                ours = f"p{host}" if interface == self.interface else f"d{host}x{i}"
                lines += [f"ip link add {ours} mtu {self.mtu} type veth peer name {interface} mtu {self.mtu} netns {net}",
                          f"ip link set {ours} up"]
            lines.append(f"ip link set p{host} master br0")
        # Not by the switch's agent, which does not see the hosts' processes.
        subprocess.run(["nsenter", f"--net=/proc/{self._child(0)}/ns/net", "sh", "-ec", "\n".join(lines)], check=True)
        for host in range(self.n):
            self.check(host, "\n".join(self._address_lines(host)))

    def _child(self, agent):
        """The first process of a host, by its number outside."""
        pid = self.agents[agent].pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()[0]

    def _address_lines(self, host):
        for i, interface in enumerate(self.dead_ends):
            if self.family != "inet6":
                yield f"ip address add 10.{78 + i}.0.{host + 1}/24 dev {interface}"
            if self.family != "inet":
                yield f"ip address add fd{78 + i}::{host + 1}/64 dev {interface} nodad"
            yield f"ip link set {interface} up"
        for address in self.addresses(host):
            yield f"ip address add {address}/{64 if ':' in address else 24} dev {self.interface}" + (
                " nodad" if ":" in address else "")
        yield f"ip link set {self.interface} up"

    # ---- What tests ask for.

    @staticmethod
    def name(host):
        return f"node{host}"

    def addresses(self, host):
        return ([f"10.77.0.{host + 1}"] if self.family != "inet6" else []) + (
            [f"fd77::{host + 1}"] if self.family != "inet" else [])

    def start(self, host, command, environment=None):
        """A command on a host, which is a number or "switch"; a text is one for the shell."""
        output = tempfile.TemporaryFile()
        command = ["sh", "-c", command] if isinstance(command, str) else list(command)
        name = host if host == "switch" else self.name(host)
        with open(os.devnull) as nothing:
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            connection = connect(self.folder, name, command, environment or {}, files, os.getcwd())
        return Running(host, connection, output)

    def check(self, host, command, seconds=60):
        """The output of a command, which must succeed."""
        status, text = self.start(host, command).wait(seconds)
        if status != 0:
            raise RuntimeError(f"{host}: {command}: exit status {status}: {text}")
        return text

    def _ends(self, host, dead_end):
        """A cable's end at the host and at the switch."""
        if dead_end is None:
            return self.interface, f"p{host}"
        return self.dead_ends[dead_end], f"d{host}x{dead_end}"

    def shape(self, host, rate, both=True, dead_end=None):
        """What a host may send, and what it gets as well if `both`: a rate such as 100mbit.  By the cable of a dead end
        that is plugged, if that is given."""
        ours, theirs = self._ends(host, dead_end)
        for where, interface in ((host, ours), ("switch", theirs)) if both else ((host, ours),):
            # htb lets the next packet wait until the wire has had time for the last one.  tbf spares time for later:
            # the first 256 KiB after a pause would pass at once.  htb spares 16 KiB: a sender that waits for its turn on
            # a core would lose that time of the wire, and rings of 8 processes on 2 cores lost half of it.
            self.check(where, f"tc qdisc replace dev {interface} root handle 1: htb default 1; "
                       f"tc class replace dev {interface} parent 1: classid 1:1 htb rate {rate} burst 16kb cburst 16kb "
                       f"quantum 60000; tc qdisc replace dev {interface} parent 1:1 bfifo limit 4mb")

    def plug(self, dead_end=0):
        """One of the dead ends leads to a second switch, on all hosts: they then have two interfaces that join them."""
        self.check("switch", f"ip link add br{dead_end + 1} type bridge; ip link set br{dead_end + 1} mtu {self.mtu} up")
        for host in range(self.n):
            self.check("switch", f"ip link set d{host}x{dead_end} master br{dead_end + 1}")

    def drop(self, host, rule):
        """What comes to this host is dropped without a word where nft's rule is true: "ip saddr 10.77.0.1"."""
        self.check(host, "nft add table inet tutti; "
                         "nft add chain inet tutti in '{ type filter hook input priority 0; }'; "
                         f"nft add rule inet tutti in {rule} drop")

    def heal(self, host):
        """Nothing is dropped any more."""
        self.check(host, "nft delete table inet tutti")

    def sent(self, dead_end=None):
        """Bytes that each host has put on its cable, or on that of a dead end that is plugged."""
        lines = self.check("switch", "cat /proc/net/dev").splitlines()
        received = {line.split(":")[0].strip(): int(line.split(":")[1].split()[0]) for line in lines if ":" in line}
        return [received[self._ends(host, dead_end)[1]] for host in range(self.n)]
