"""Threads of the torch backend that the system does not give; the file needs no torch."""
import importlib.util
import pathlib
import threading
import unittest

import tutti

FILE = pathlib.Path(tutti.__file__).parent / "torch/threads.py"


def module():
    spec = importlib.util.spec_from_file_location("threads", FILE)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Threads(unittest.TestCase):
    def test_a_thread_that_can_be_had_runs(self):
        said = []
        module().start("a test", "tutti test", said.append, 3).join()
        self.assertEqual(said, [3])

    def test_one_that_cannot_is_an_error_that_says_what_for_and_what_to_raise(self):
        before = threading.stack_size(1 << 60)  # more than there are addresses
        self.addCleanup(threading.stack_size, before)
        with self.assertRaisesRegex(RuntimeError, "^tutti: cannot start a thread for a test: .*; raise `ulimit -u` "):
            module().start("a test", "tutti test", print)


if __name__ == "__main__":
    unittest.main()
