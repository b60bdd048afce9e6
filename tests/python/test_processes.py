"""Ranks as processes: launchers, forks, deaths and deadlines, as a user's script meets them.  Needs no numpy."""
import re
import subprocess
import sys
import unittest

import tutti
from support import processes


class Processes(unittest.TestCase):
    def check(self, n, text, *patterns, status=0, **more):
        got, output = processes(n, text, **more)
        self.assertEqual(got, status, output)
        for pattern in patterns:
            self.assertRegex(output, pattern)
        return output

    def test_ranks_from_the_environment(self):
        self.check(3, """
            import array, tutti
            with tutti.Communicator.from_env() as comm:
                x = array.array("f", [comm.rank] * 3)
                comm.all_reduce(x)
                print("rank", comm.rank, "of", comm.size, list(x))
            """, *(rf"rank {r} of 3 \[3.0, 3.0, 3.0\]" for r in range(3)))

    def test_a_process_that_nothing_started_is_alone(self):
        done = subprocess.run([sys.executable, "-c", "import tutti; print(tutti.Communicator.from_env())"],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("rank 0 of 1", done.stdout, done.stderr)

    def test_communicators_do_not_survive_a_fork(self):
        self.check(2, """
            import os, tutti
            comm, stream, x = tutti.Communicator.from_env(timeout=20), tutti.Stream(), bytearray(4)
            comm.all_reduce(x)
            child = os.fork()
            if child == 0:
                for call in (lambda: comm.all_reduce(x), lambda: comm.broadcast(x, stream=stream), lambda: comm.barrier(),
                             lambda: stream.synchronize(), lambda: comm.split(0)):
                    try:
                        call()
                        os._exit(1)
                    except tutti.InvalidUsage as error:
                        if "made before the process was forked" not in str(error): os._exit(2)
                with tutti.Communicator.init(1, 0, tutti.get_unique_id()) as own:  # but one of its own does
                    own.all_reduce(x)
                comm.destroy()  # nothing
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            comm.all_reduce(x)
            comm.destroy()
            print("went on")
            """, "went on")

    def test_a_rank_that_dies_is_named(self):
        output = self.check(3, """
            import os, tutti
            comm = tutti.Communicator.from_env(timeout=20)
            comm.barrier()
            if comm.rank == 1:
                os.kill(os.getpid(), 9)
            try:
                for _ in range(1000): comm.all_reduce(bytearray(64))
            except tutti.RemoteError as error:
                print("heard:", error)
            smaller = comm.shrink(abort=True)
            x = bytearray([1])
            smaller.all_reduce(x)
            print("went on with", x[0])
            comm.abort()
            smaller.destroy()
            """, status=137, flags=["--grace", "20"])
        self.assertEqual(len(re.findall("heard: .*rank 1", output)), 2, output)
        self.assertEqual(output.count("went on with 2"), 2, output)

    def test_a_body_that_raises_aborts(self):
        output = self.check(2, """
            import tutti
            with tutti.Communicator.from_env(timeout=20) as comm:
                if comm.rank == 0:
                    raise ZeroDivisionError
                try:
                    comm.barrier()
                except tutti.TuttiError as error:
                    print("heard:", error.name, error)
            """, "heard: tuttiRemoteError.*rank 0", status=1, flags=["--grace", "20"])
        self.assertIn("ZeroDivisionError", output)

    def test_other_threads_run_while_a_call_waits(self):
        self.check(2, """
            import threading, time, tutti
            with tutti.Communicator.from_env(timeout=20) as comm:
                if comm.rank == 1:
                    time.sleep(0.3)
                done, turns = [], 0
                def wait():
                    comm.barrier()
                    done.append(1)
                thread = threading.Thread(target=wait)
                thread.start()
                while not done:
                    turns += 1
                    time.sleep(0.001)
                thread.join()
                print("rank", comm.rank, "had turns" if comm.rank == 1 or turns > 20 else "was stopped")
            """, "rank 0 had turns")


class Libraries(unittest.TestCase):
    def test_what_cannot_be_found_is_said(self):
        for home, says in (("/nowhere", "TUTTI_HOME=/nowhere has no libtutti.so.0: looked for /nowhere/packaging"),):
            done = subprocess.run([sys.executable, "-c", "import tutti"], capture_output=True, text=True, timeout=60,
                                  env={"PYTHONPATH": str(tutti.__path__[0]) + "/..", "TUTTI_HOME": home})
            self.assertIn("ImportError: " + says, done.stderr)

    def test_the_version_is_the_librarys(self):
        self.assertEqual(tutti.__version__, "{}.{}.{}".format(*tutti.get_version()))


if __name__ == "__main__":
    unittest.main()
