"""The programs of examples/python, as their first lines say; and ranks of mpi4py, where that is installed."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import unittest

import numpy  # noqa: F401  the examples make arrays
import tutti  # noqa: F401
from support import processes, python_path
from tutti._find import find_program

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


class Examples(unittest.TestCase):
    def run_example(self, n, name, *arguments):
        done = subprocess.run([find_program("tutti-run"), "-n", str(n), sys.executable, EXAMPLES / name, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250, env=python_path())
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_allreduce(self):
        output = self.run_example(3, "allreduce.py")
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3: sum 6", output)

    def test_overlap(self):
        self.assertEqual(self.run_example(2, "overlap.py").count("of 2: 4 sums"), 2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_zero_and_pipeline_train_as_torch_alone(self):
        self.assertIn("step 2: loss", self.run_example(4, "zero_pipeline.py", "--steps", "3"))

    @unittest.skipUnless(importlib.util.find_spec("mpi4py") and shutil.which("mpirun"), "mpi4py or mpirun is not installed")
    def test_ranks_of_mpi4py(self):
        text = ("from mpi4py import MPI; import numpy, tutti\n"
                "with tutti.Communicator.from_mpi(MPI.COMM_WORLD, timeout=20) as comm:\n"
                "    x = numpy.ones(3); comm.all_reduce(x)\n"
                "    print('rank', comm.rank == MPI.COMM_WORLD.rank, x[0])\n")
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-c", text],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250, env=python_path())
        self.assertEqual(done.stdout.count("rank True 3.0"), 3, done.stdout)

    def test_what_another_rank_raises_is_a_programs_end(self):
        status, output = processes(2, "import tutti\nwith tutti.Communicator.from_env(timeout=20) as comm: comm.nothing()")
        self.assertNotEqual(status, 0)
        self.assertIn("AttributeError", output)


if __name__ == "__main__":
    unittest.main()
