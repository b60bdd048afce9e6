"""All ranks of one setting: started once, then told cell by cell what to do over one Unix socket per rank."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import placement
from results import IN_PLACE

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE_BYTES = 4096  # shared_page.hpp


class GroupError(Exception):
    """The ranks of a setting did not start, failed, or took too long; they are gone."""


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


class Group:
    """Ranks answer in any order; every call here waits for all of them, at most `timeout` seconds."""

    def __init__(self, name, ranks, program, environment, launch=None, timeout=60.0, cpus=1, nice=None, hogs=0):
        """hogs: so many busy loops in the ranks' session, which run within beside() only."""
        self.name, self.ranks, self.timeout, self.cpus = name, ranks, timeout, cpus
        self.nice, self.hogs = nice, hogs
        self.library = ""
        self.connections, self.pending, self.process = [], {}, None
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-compare-")
        self.errors = open(os.path.join(self.folder.name, "output"), "w+b")
        path = os.path.join(self.folder.name, "control")
        with open(os.path.join(self.folder.name, "page"), "wb") as page:
            page.write(bytes(PAGE_BYTES))
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.listener.bind(path)
            os.chmod(path, 0o600)
            self.listener.listen(ranks)
            self._start(program, dict(environment, COMPARE_CONTROL=path, COMPARE_FOLDER=self.folder.name), launch)
            self._accept()
            self._greet()
        except (GroupError, OSError) as error:
            self.stop()
            raise error if isinstance(error, GroupError) else GroupError(f"{name}: {error}")

    # ---- the life of the ranks

    def _start(self, program, environment, launch):
        command = launch
        if launch is None:
            command = [sys.executable, os.path.join(HERE, "ranks.py"), str(self.ranks), program]
        if self.nice is not None:
            command = ["nice", "-n", str(self.nice), *command]
        if self.hogs:
            command = [sys.executable, os.path.join(HERE, "hogs.py"), str(self.hogs), self._hogs_file(), *command]
        # A session for each setting, of which all its ranks are part: see ranks.py.
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=self.errors, start_new_session=True)

    def _accept(self):
        deadline = time.monotonic() + self.timeout
        self.listener.settimeout(0.2)
        while len(self.connections) < self.ranks:
            try:
                connection, _ = self.listener.accept()
            except socket.timeout:
                if self.process.poll() not in (None, 0):
                    raise GroupError(f"{self.name} did not start: {self.output()}")
                if time.monotonic() > deadline:
                    raise GroupError(f"{self.name}: {len(self.connections)} of {self.ranks} ranks started in "
                                     f"{self.timeout:g} s: {self.output()}")
                continue
            self.connections.append(connection)
            self.pending[connection] = b""

    def _greet(self):
        """Serves gathers until every rank has said hello; then puts the connections in the order of the ranks."""
        order = {}
        gathers = 0
        while len(order) < self.ranks:
            answers = self._answers()
            words = {line.split(" ", 1)[0] for line in answers.values()}
            if words == {"gather"}:
                gathers += 1
                # Until the ranks have said who they are, the texts are in the order of the connections, which must be
                # that of the ranks: only ranks started here gather, and their first text is their number.
                self._gather(answers, first=gathers == 1)
                continue
            if words != {"hello"}:
                raise GroupError(f"{self.name}: ranks disagree: {sorted(answers.values())}")
            for connection, line in answers.items():
                _, rank, size, library = line.split(" ", 3)
                if int(size) != self.ranks:
                    raise GroupError(f"{self.name}: a rank sees {size} ranks instead of {self.ranks}")
                order[int(rank)] = connection
                self.library = library
        if sorted(order) != list(range(self.ranks)):
            raise GroupError(f"{self.name}: the ranks are {sorted(order)}")
        self.connections = [order[r] for r in range(self.ranks)]

    def _gather(self, answers, first):
        texts = {c: answers[c].split(" ")[1] for c in self.connections}
        if first:
            self.connections.sort(key=lambda c: int(bytes.fromhex(texts[c].rstrip(".")).decode()))
        self._tell("gathered " + " ".join(texts[c] for c in self.connections))

    def stop(self):
        """Ends what this object started, whatever state it is in."""
        for connection in self.connections:
            connection.close()  # every rank leaves when its connection closes
        self.listener.close()
        if self.process is not None:
            self._end(self.process)
        self.errors.close()
        self.folder.cleanup()
        self.connections, self.process = [], None

    GRACE = 5.0  # seconds to leave before a signal comes

    def _end(self, process):
        for ending in (signal.SIGTERM, signal.SIGKILL):
            try:
                process.wait(self.GRACE)
                return
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, ending)  # its session is its own
        process.wait()

    def _hogs_file(self):
        return os.path.join(self.folder.name, "hogs")

    @contextlib.contextmanager
    def beside(self):
        """The hogs of this session, if it has any, compute for as long as the context lasts."""
        pids = []
        if self.hogs:
            with open(self._hogs_file()) as f:  # there before the first rank was started
                pids = [int(word) for word in f.read().split()]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # they end with the ranks
                    os.kill(pid, signal.SIGSTOP)

    def quit(self):
        try:
            self._tell("quit")
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.stop()

    def output(self):
        """The end of what the ranks and the launcher printed."""
        self.errors.flush()
        self.errors.seek(0)
        return one_line(self.errors.read().decode(errors="replace")[-600:]) or "no output"

    # ---- talking

    def _tell(self, line):
        for connection in self.connections:
            connection.sendall((line + "\n").encode())

    def _answers(self):
        """One line of every rank: {connection: text}."""
        answers = {}
        deadline = time.monotonic() + self.timeout
        for connection in self.connections:
            answers[connection] = self._line(connection, deadline)
        return answers

    def _line(self, connection, deadline):
        while b"\n" not in self.pending[connection]:
            # Short waits, so that an error of another rank is seen even while this one hangs.
            connection.settimeout(max(0.01, min(1.0, deadline - time.monotonic())))
            try:
                got = connection.recv(65536)
            except socket.timeout:
                self._look_for_errors()
                if time.monotonic() > deadline:
                    raise GroupError(f"{self.name}: no answer within {self.timeout:g} s")
                continue
            except OSError as error:
                raise GroupError(f"{self.name}: {error}")
            if not got:
                time.sleep(0.2)
                self._look_for_errors()
                raise GroupError(f"{self.name}: a rank ended: {self.output()}")
            self.pending[connection] += got
        line, _, self.pending[connection] = self.pending[connection].partition(b"\n")
        text = line.decode(errors="replace")
        if text.startswith("error "):
            raise GroupError(f"{self.name}: {text[6:]}")
        return text

    def _look_for_errors(self):
        for connection in self.connections:
            connection.settimeout(0)
            try:
                self.pending[connection] += connection.recv(65536)
            except OSError:
                continue
            for line in self.pending[connection].split(b"\n")[:-1]:
                if line.startswith(b"error "):
                    raise GroupError(f"{self.name}: {line[6:].decode(errors='replace')}")

    def ask(self, line):
        """The answers of all ranks, in rank order."""
        try:
            self._tell(line)
        except OSError as error:
            raise GroupError(f"{self.name}: {error}: {self.output()}")
        answers = self._answers()
        return [answers[c] for c in self.connections]

    def cell(self, op, dtype, size, memory, data="reused"):
        """Prepares a cell and checks one call.  True, or False if the library cannot do it."""
        answers = self.ask(f"cell {op} {dtype} {size} {memory} {'in-place' if data == IN_PLACE else 'apart'}")
        self._no_wrong(answers, f"{op} {dtype} {size} B")
        return "unsupported" not in answers

    def time(self, calls, blocks, data="reused"):
        """A Block for each.  data: reused; fresh, which every rank writes before each call; or in-place, which are fresh, and
        whose place the result takes."""
        answers = self.ask(f"time {calls} {blocks} {'reused' if data == 'reused' else 'fresh'}")
        self._no_wrong(answers, f"timed calls, {data} data")
        return blocks_of(answers, blocks, self.cpus)

    def drop(self):
        self.ask("drop")

    def _no_wrong(self, answers, what):
        for answer in answers:
            if answer.startswith("wrong "):
                raise GroupError(f"{self.name}: WRONG RESULT, {what}: {answer[6:]}")


class Block:
    """One timed block: the slowest rank's time, how much other programs disturbed it, and how near the cores were
    (placement.py)."""

    def __init__(self, us, disturbance, line=None):
        self.us, self.disturbance, self.line = us, disturbance, line

    @property
    def clean(self):
        return self.disturbance < 0.05

    def __repr__(self):
        return f"Block({self.us}, {self.disturbance:.2f})"


def blocks_of(answers, count, cpus):
    """From one "times US:RUN:WAIT:WALL:BEFORE:AFTER ..." line per rank to `count` Blocks.  cpus: how many the ranks share."""
    per_rank = [[tuple(float(v) for v in part.split(":")) for part in a.split()[1:]] for a in answers]
    if any(a.split()[0] != "times" for a in answers) or any(len(r) != count for r in per_rank):
        raise GroupError(f"not {count} times of every rank: {answers}")
    blocks = []
    for ranks in zip(*per_rank):
        us = max(r[0] for r in ranks)
        share = disturbance([r[1] for r in ranks], [r[2] for r in ranks], cpus, max(r[3] for r in ranks))
        blocks.append(Block(us, share, placement.over(*ranks[0][4:6])))
    return blocks


def disturbance(run_us, wait_us, cpus, wall_us):
    """The share of the block's time that other programs took from the ranks, at least.

    Ranks that share a cpu wait for each other: with k ranks on it, at most k - 1 wait while one runs.  What they waited
    beyond that, others were running.  Ranks are spread evenly, so the sum over all cpus is looked at."""
    k = len(run_us) / min(cpus, len(run_us))
    foreign = (sum(wait_us) - (k - 1) * sum(run_us)) / len(run_us)
    return min(1.0, max(0.0, foreign / wall_us)) if wall_us > 0 else 0.0
