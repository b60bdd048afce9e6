"""tutti-run from outside: exit status, output, signals, and that nothing is left behind.  Usage: FILE PATH_OF_TUTTI_RUN"""
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unittest

RUN = None


def run(*args, stdin=None, timeout=30):
    return subprocess.run([RUN, *args], input=stdin, capture_output=True, text=True, timeout=timeout)


def sh(ranks, script, *flags, **kw):
    return run("-n", str(ranks), *flags, "sh", "-c", script, **kw)


def listed(ranks):
    """Of "1 to 3 and 7": 1, 2, 3, 7."""
    ends = [part.split(" to ") for part in re.split(", | and ", ranks)]
    return [rank for first, *last in ends for rank in range(int(first), int((last or [first])[0]) + 1)]


def state(pid):
    """As ps shows it: R, S, T, Z; X if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(pid):
    return state(pid) not in "ZX"


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Started:
    """A tutti-run in the background whose ranks print their pids, one a line."""

    def __init__(self, ranks, script, *flags):
        self.p = subprocess.Popen([RUN, "-n", str(ranks), *flags, "sh", "-c", script], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)

    def __del__(self):
        self.p.stdout.close()
        self.p.stderr.close()

    def pids(self, n):
        return [int(self.p.stdout.readline()) for _ in range(n)]


class TuttiRun(unittest.TestCase):
    def test_an_error_of_all_ranks_is_printed_once(self):
        script = 'echo "wrong count [TUTTI-5201]" >&2; echo "mine $RANK [TUTTI-5201]" >&2; echo plain >&2; exit 4'
        r = sh(4, script, "--no-tag")
        self.assertEqual(r.returncode, 4)
        self.assertEqual(r.stderr.count("wrong count"), 1)
        # In one line, if they came within 100 ms (same_errors_test.cpp).
        same = re.findall(r"tutti-run: ranks? (.*) says? the same as rank (\d) \[TUTTI-5201\]", r.stderr)
        self.assertEqual(len({first for _, first in same}), 1, r.stderr)
        self.assertEqual(sorted([int(same[0][1]), *(rank for ranks, _ in same for rank in listed(ranks))]), [0, 1, 2, 3])
        self.assertEqual(r.stderr.count("plain"), 4)
        for rank in range(4):
            self.assertEqual(r.stderr.count(f"mine {rank}"), 1)
        self.assertEqual(len(re.findall(r"\(pid \d+\) ended with status 4", r.stderr)), 1)
        self.assertEqual(sh(4, script, "--no-tag", "--every-error").stderr.count("wrong count"), 4)

    def test_the_first_error_comes_while_the_ranks_run(self):
        started = Started(3, 'echo "late [TUTTI-8001]" >&2; echo $$; sleep 60', "--no-tag")
        pids = started.pids(3)
        self.assertEqual(started.p.stderr.readline(), "late [TUTTI-8001]\n")
        self.assertRegex(started.p.stderr.readline(), r"tutti-run: ranks? .* says? the same as rank \d \[TUTTI-8001\]\n")
        self.assertTrue(all(alive(pid) for pid in pids))
        started.p.send_signal(signal.SIGTERM)
        started.p.wait(20)

    def test_ranks_know_who_they_are(self):
        r = sh(3, 'echo $TUTTI_RANK $TUTTI_NRANKS $TUTTI_LOCAL_RANK $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE '
                  '${#TUTTI_UNIQUE_ID}')
        self.assertEqual(r.returncode, 0)
        self.assertEqual(sorted(r.stdout.split("\n")[:3]), [f"{i} 3 {i} {i} 3 {i} 3 256" for i in range(3)])

    def test_all_ranks_get_the_same_meeting_place(self):
        self.assertEqual(len(set(sh(3, 'echo $TUTTI_UNIQUE_ID').stdout.split())), 1)

    def test_variables_are_handed_on(self):
        r = sh(1, 'echo "$A,$B,$HOME"', "-x", "A=1 2", "-x", "B=x=y", "-x", "HOME")
        self.assertEqual(r.stdout, f"1 2,x=y,{os.environ['HOME']}\n")

    def test_arguments_of_the_program_are_its_own(self):
        self.assertEqual(run("-n", "1", "echo", "7", "--timeout", "x").stdout, "7 --timeout x\n")

    def test_the_number_of_ranks_as_mpirun_has_it(self):
        r = run("-np", "2", "--no-tag", "-x", "A=-np", "sh", "-c", "echo $RANK $A $0 $1", "-np", "7")
        self.assertEqual(sorted(r.stdout.splitlines()), ["0 -np -np 7", "1 -np -np 7"], r.stderr)
        self.assertEqual(run("--no-tag", "-np", "1", "echo", "-np", "3").stdout, "-np 3\n")

    def test_version(self):
        r = run("--version")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"^tutti-run \d+\.\d+\.\d+\n$")

    def test_wrong_command_lines_are_refused(self):
        for args, part in [((), "-n"), (("-n", "0", "true"), "-n"), (("-n", "2"), "no program"),
                           (("-n", "2", "--bogus", "true"), "--bogus"), (("-n", "2", "-x", "=1", "true"), "-x"),
                           (("-n", "2", "--hosts", "a,b", "true"), "mpirun, srun or torchrun"),
                           (("-n", "2", "--tag-output", "--no-tag", "true"), "exclude")]:
            with self.subTest(args=args):
                r = run(*args)
                self.assertEqual(r.returncode, 1)
                self.assertIn(part, r.stderr)

    def test_a_program_that_cannot_be_started_is_named(self):
        r = run("-n", "2", "no-such-program")
        self.assertEqual(r.returncode, 127)
        self.assertIn("cannot start no-such-program: No such file", r.stderr)

    def test_lines_are_never_torn_or_mixed(self):
        script = 'i=0; while [ $i -lt 200 ]; do printf a$RANK; printf "%s" b$RANK; echo c$RANK; i=$((i+1)); done'
        for flag, line in [("--tag-output", r"\[(\d)\] a\1b\1c\1"), ("--no-tag", r"a(\d)b\1c\1")]:
            lines = sh(4, script, flag).stdout.splitlines()
            self.assertEqual(len(lines), 800)
            for text in lines:
                self.assertRegex(text, f"^{line}$")

    def test_a_last_line_without_a_break_is_a_line(self):
        self.assertEqual(sorted(sh(2, 'printf $RANK', "--tag-output").stdout.splitlines()), ["[0] 0", "[1] 1"])

    def test_stderr_stays_stderr(self):
        r = sh(1, 'echo out; echo err >&2', "--tag-output")
        self.assertEqual((r.stdout, r.stderr), ("[0] out\n", "[0] err\n"))

    def test_only_rank_0_reads_the_input(self):
        self.assertEqual(sorted(sh(2, 'echo "$RANK:$(cat)"', stdin="hello").stdout.split()), ["0:hello", "1:"])

    def test_a_terminal_gets_tags_and_feeds_rank_0(self):
        master, slave = pty.openpty()
        p = subprocess.Popen([RUN, "-n", "1", "sh", "-c", "read x; echo got $x"], stdin=slave, stdout=slave,
                             stderr=slave, start_new_session=True,
                             preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
        os.close(slave)
        os.write(master, b"word\n")
        self.assertEqual(p.wait(20), 0)
        text = os.read(master, 4096).decode()
        self.assertIn("[0] \x1b[0mgot word", text)
        os.close(master)

    def test_exit_status_of_the_first_failure(self):
        r = sh(3, 'if [ $RANK = 2 ]; then exit 9; fi; sleep 1; exit 4')
        self.assertEqual(r.returncode, 9)
        self.assertRegex(r.stderr, r"tutti-run: rank 2 \(pid \d+\) ended with status 9\n")

    def test_a_killed_rank_is_named_and_the_others_are_ended(self):
        start = time.monotonic()
        r = sh(3, 'if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 60', "--grace", "0.1")
        self.assertEqual(r.returncode, 128 + 9)
        self.assertRegex(r.stderr, r"tutti-run: rank 1 \(pid \d+\) was killed by signal 9 \(Killed\)\n")
        self.assertLess(time.monotonic() - start, 30)

    def test_ranks_that_ignore_sigterm_are_killed(self):
        r = sh(2, 'if [ $RANK = 1 ]; then exit 5; fi; trap "" TERM; while :; do sleep 0.05; done', "--grace", "0.1")
        self.assertEqual(r.returncode, 5)

    def test_a_stopped_rank_does_not_keep_the_job(self):
        r = sh(2, 'if [ $RANK = 1 ]; then sleep 0.1; exit 5; fi; kill -STOP $$', "--grace", "0.1")
        self.assertEqual(r.returncode, 5)

    def test_survivors_may_report_before_they_are_ended(self):
        r = sh(2, 'if [ $RANK = 1 ]; then exit 3; fi; sleep 0.2; echo peer is gone; exit 6')
        self.assertEqual((r.returncode, r.stdout), (3, "peer is gone\n"))

    def test_timeout(self):
        r = run("-n", "2", "--timeout", "0.2", "--grace", "0.1", "sleep", "60")
        self.assertEqual(r.returncode, 124)
        self.assertIn("not done after 0.2 s", r.stderr)

    def test_signals_reach_every_rank(self):
        for name, number in [("USR1", signal.SIGUSR1), ("TERM", signal.SIGTERM), ("HUP", signal.SIGHUP)]:
            with self.subTest(name):
                s = Started(2, f'trap "echo caught; exit 0" {name}; echo $$; while :; do sleep 0.02; done')
                s.pids(2)
                s.p.send_signal(number)
                out, _ = s.p.communicate(timeout=20)
                self.assertEqual(out, "caught\ncaught\n")
                self.assertEqual(s.p.returncode, 0)

    def test_an_interrupted_job_has_the_signals_status(self):
        s = Started(2, "echo $$; exec sleep 60")
        s.pids(2)
        s.p.send_signal(signal.SIGINT)
        _, err = s.p.communicate(timeout=20)
        self.assertEqual((s.p.returncode, err), (130, ""))

    def test_a_second_interrupt_kills(self):
        s = Started(2, 'trap "" INT; echo $$; while :; do sleep 0.02; done')
        s.pids(2)
        s.p.send_signal(signal.SIGINT)
        time.sleep(0.1)
        s.p.send_signal(signal.SIGINT)
        s.p.communicate(timeout=20)
        self.assertEqual(s.p.returncode, 137)

    def test_stop_and_continue(self):
        s = Started(1, "echo $$; exec sleep 60")
        pid = s.pids(1)[0]
        s.p.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: state(pid) == "T" and state(s.p.pid) == "T"))
        s.p.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: state(pid) == "S"))
        s.p.send_signal(signal.SIGTERM)
        s.p.communicate(timeout=20)

    def test_nothing_is_left_when_tutti_run_is_killed(self):
        s = Started(2, "sleep 60 & echo $!; echo $$; wait")
        pids = s.pids(4)
        s.p.kill()
        s.p.wait(20)
        self.assertTrue(wait_until(lambda: not any(alive(p) for p in pids)), [p for p in pids if alive(p)])

    def test_nothing_is_left_at_the_end(self):
        r = sh(2, "sleep 60 & echo $!; setsid sleep 61 & echo $!; sleep 0.1")
        self.assertEqual(r.returncode, 0)
        pids = [int(p) for p in r.stdout.split()]
        self.assertEqual(len(pids), 4)
        self.assertTrue(wait_until(lambda: not any(alive(p) for p in pids)), [p for p in pids if alive(p)])

    def test_a_reader_that_goes_away_is_no_error(self):
        p = subprocess.Popen([RUN, "-n", "1", "sh", "-c", "seq 100000; exit 0"], stdout=subprocess.PIPE)
        p.stdout.readline()
        p.stdout.close()
        self.assertEqual(p.wait(20), 0)

    def test_ranks_are_bound_where_each_core_gets_as_many(self):
        cpus = sorted(os.sched_getaffinity(0))
        show = [sys.executable, "-c", "import os; print(os.environ['RANK'], sorted(os.sched_getaffinity(0)))"]
        masks = dict(l.split(" ", 1) for l in run("-n", "1", *show).stdout.splitlines())
        self.assertIn(cpus[0], eval(masks["0"]))
        for flags in [("-n", "1", "--no-bind"), ("-n", "1", "--bind", "none"), ("-n", "1", "--bind", "share")]:
            self.assertEqual(run(*flags, *show).stdout, f"0 {cpus}\n")
        twice = run("-n", str(2 * len(cpus)), *show).stdout if len(cpus) <= 8 else ""
        masks = dict(l.split(" ", 1) for l in twice.splitlines())
        if len(set(masks.values())) == len(cpus):  # a processor is a core
            self.assertEqual(masks["0"], masks[str(len(cpus))])
        many = run("-n", str(len(cpus) + 1), *show) if 1 < len(cpus) <= 8 else None
        if many:
            self.assertEqual({l.split(" ", 1)[1] for l in many.stdout.splitlines()}, {str(cpus)})


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a shell cannot trap what nohup has it ignore
    RUN = sys.argv.pop(1)
    unittest.main(argv=sys.argv[:1], verbosity=1)
