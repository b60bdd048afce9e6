#!/usr/bin/env python3
"""tools/check-stages and tools/within: what counts as passed, failed and skipped, and that nothing stays behind."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A test that passes, one that fails, one that is skipped, and two for which no time suffices.
PROJECT = """project('small')
sh = find_program('sh')
test('sound', sh, args: ['-c', 'exit 0'], suite: 's', priority: 9)
test('broken', sh, args: ['-c', 'exit 1'], suite: 's', priority: 8)
test('elsewhere', sh, args: ['-c', 'exit 77'], suite: 's', priority: 7)
test('endless', sh, args: ['-c', 'sleep 100 & sleep 100'], suite: 's', priority: 6)
test('never begun', sh, args: ['-c', 'exit 0'], suite: 's', is_parallel: false)
test('of another suite', sh, args: ['-c', 'exit 0'], suite: 'other')
"""


def alive(mark):
    """Processes whose environment has MARK=mark; zombies have none."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.mark = f"check-{os.getpid()}-{id(self)}"
        self.env = dict(os.environ, MARK=self.mark)
        for folder in ("logs", "tools"):
            (self.here / folder).mkdir()
        for name in ("within", "failed-tests"):
            shutil.copy(ROOT / "tools" / name, self.here / "tools" / name)

    def tearDown(self):
        self.folder.cleanup()

    @property
    def here(self):
        return pathlib.Path(self.folder.name)

    def run_stages(self, stages, limit=0):
        script = f"set -uo pipefail\nexport logs=logs\nsource {ROOT}/tools/check-stages\nlimit={limit}\n{stages}\nfinish\n"
        done = subprocess.run(["bash", "-c", script], cwd=self.here, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout, done.stdout.splitlines()[-1]

    def project(self):
        if not shutil.which("meson"):
            self.skipTest("no meson")
        (self.here / "meson.build").write_text(PROJECT)
        subprocess.run(["meson", "setup", "b"], cwd=self.here, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_without_a_limit(self):
        status, _, last = self.run_stages("step a true; step b test -z ''; skip c 'no such device'")
        self.assertEqual((status, last), (0, "2 passed, 0 failed, 1 skipped"))
        status, said, last = self.run_stages("step a true; step b sh -c 'echo the reason; exit 124'; step c true")
        self.assertEqual((status, last), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("    the reason", said)

    def test_a_failure_within_the_limit(self):
        status, _, last = self.run_stages("step a true; step b sh -c 'exit 124'", limit=1000)
        self.assertEqual((status, last), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_function_within_the_limit(self):
        status, said, last = self.run_stages(
            "f() { [ \"$1$word\" = 'a bc' ] && echo $unset; }\nexport -f f\nword=c step a f 'a b'", limit=1000)
        self.assertEqual((status, last), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("unset: unbound variable", said)

    def test_a_stage_that_takes_too_long(self):
        status, said, last = self.run_stages(
            "step a true\nstep endless sh -c 'setsid sleep 100 & sleep 100'; echo status $?\n"
            "limit=1000 step c true\nstep d true; echo status $?", limit=2)
        self.assertEqual((status, last), (0, "2 passed, 0 failed, 2 skipped"))
        self.assertRegex(said, r"skipped endless: no time left, stopped after \d+ s\nstatus 2\n")
        self.assertIn("skipped d: no time left\nstatus 2\n", said)
        self.assertEqual(alive(self.mark), [])

    def test_a_stage_that_is_not_worth_beginning(self):
        status, said, last = self.run_stages("needs=900 step large touch begun; needs=1 step small true", limit=800)
        self.assertEqual((status, last), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertRegex(said, r"skipped large: no time left \(of \d+ s; it takes about 900\)")
        self.assertFalse((self.here / "begun").exists())

    def test_a_check_that_was_not_finished(self):
        status, said, last = self.run_stages("step a true; unfinished='no time for the quick suite'")
        self.assertEqual((status, last), (1, "1 passed, 0 failed, 0 skipped"))
        self.assertIn("Not a pass: no time for the quick suite", said)

    def test_a_suite(self):
        self.project()
        status, said, last = self.run_stages("suite other b --suite other; suite none b --suite none")
        self.assertEqual(last, "1 passed, 1 failed, 0 skipped")  # a suite without tests is a mistake
        self.assertEqual(status, 1)

    def test_a_suite_that_takes_too_long(self):
        self.project()
        for stages in ("suite all b --suite s", "suiteMeanwhile all b --suite s; joinMeanwhile; joinMeanwhile"):
            with self.subTest(stages):
                status, said, last = self.run_stages("step a true\n" + stages, limit=4)
                self.assertEqual((status, last), (1, "2 passed, 1 failed, 3 skipped"))
                self.assertRegex(said, r"skipped all: no time left, stopped after \d+ s: (endless; never begun|never begun; endless); \n")
                self.assertIn("FAIL small:s / broken", said)
                self.assertNotIn("INTERRUPT", said)
                self.assertEqual(alive(self.mark), [])

    def test_a_suite_without_any_time(self):
        self.project()
        status, said, last = self.run_stages("SECONDS=100\nsuite all b --suite s", limit=50)
        self.assertEqual((status, last), (0, "0 passed, 0 failed, 5 skipped"))
        self.assertIn("skipped all: no time left, stopped before it began: ", said)

    def within(self, seconds, script):
        return subprocess.Popen([ROOT / "tools/within", str(seconds), "bash", "-c", script], cwd=self.here, env=self.env)

    def test_within_gives_the_status(self):
        for script, status in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9), ("(sleep 0.2; exit 3) & wait $!", 3)):
            for seconds in (0, 1000):
                self.assertEqual(self.within(seconds, script).wait(), status, script)

    def test_within_leaves_nothing(self):
        stubborn = "trap '' TERM INT HUP; touch began; while :; do sleep 1; done"
        for script in (f"({stubborn}) & wait", f'setsid bash -c "{stubborn}" & wait', f'(setsid bash -c "{stubborn}" &); exec sleep 100',
                       f'({stubborn}) & kill -STOP $!; touch began; wait'):
            with self.subTest(script):
                (self.here / "began").unlink(missing_ok=True)
                self.assertEqual(self.within("0.5+0.3", script).wait(), 124)
                self.assertEqual(alive(self.mark), [])

    def test_within_hands_a_signal_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            (self.here / "began").unlink(missing_ok=True)
            process = self.within(0, "setsid sleep 100 & touch began; wait")
            while not (self.here / "began").exists():
                time.sleep(0.02)
            process.send_signal(number)
            self.assertEqual(process.wait(), 128 + number)
            self.assertEqual(alive(self.mark), [])

    def test_within_reaps_orphans(self):
        """A program that waits until an orphan is gone does not wait for a zombie."""
        self.assertEqual(self.within(100, "p=$(sleep 0.1 >/dev/null & echo $!); while kill -0 $p 2>/dev/null; do sleep 0.05; done").wait(), 0)


if __name__ == "__main__":
    unittest.main()
