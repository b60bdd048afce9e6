"""The examples of docs/python.md run as they stand; and what the tools say comes back as objects."""
import doctest
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy  # noqa: F401  the examples make arrays
import tutti
from support import processes

DOCS = pathlib.Path(os.environ.get("TUTTI_TEST_DOCS", pathlib.Path(__file__).parents[2] / "docs"))


class Documents(unittest.TestCase):
    def test_examples(self):
        text = (DOCS / "python.md").read_text()
        blocks = re.findall(r"^```python\n(>>> .*?)^```$", text, re.M | re.S)
        test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "python.md", None, 0)
        self.assertGreater(len(test.examples), 30)
        runner = doctest.DocTestRunner()
        told = []
        result = runner.run(test, out=told.append)
        self.assertEqual(result.failed, 0, "".join(told))

    def test_the_script(self):
        for page in ("python.md", "start.md"):
            with self.subTest(page):
                script = re.search(r"^```python\n(# script.py\n.*?)^```$", (DOCS / page).read_text(), re.M | re.S)[1]
                status, output = processes(3, script)
                self.assertEqual(status, 0, output)
                for rank in range(3):
                    self.assertIn(f"rank {rank} of 3 sum 6.0", output)


class Tools(unittest.TestCase):
    def test_topologies(self):
        machine = tutti.topology("gpu:4 nvlink:6x25 nic:2x50")
        self.assertEqual([len(machine.all(kind)) for kind in ("host", "gpu", "nic")], [1, 4, 2])
        host = machine.all("host")[0]
        self.assertTrue(all(node.parent == host.number for node in machine.children(host)))
        nvlinks = [link for link in machine.links if link.kind == "NVLink"]
        self.assertTrue(nvlinks and all(link.gbps == 25 * link.count for link in nvlinks), nvlinks)
        self.assertGreater(len(tutti.topology().nodes), 1)

    def test_simulations(self):
        cluster = "nodes 2; machine gpu:4 nvlink:18x20.6 nic:4x50"
        told = tutti.simulate(cluster, "allreduce", "1M", links=2)
        self.assertEqual((told.ranks, told.bytes, told.collective), (8, 1 << 20, "allreduce"))
        self.assertEqual([r.us for r in told.results], sorted(r.us for r in told.results))
        self.assertEqual(len(told.best.links), 2)
        only = tutti.simulate(cluster, "allreduce", "1M", algorithm="ring").results
        self.assertEqual([(r.algorithm, r.us, r.links) for r in only],
                         [(r.algorithm, r.us, []) for r in told.results if r.algorithm == "ring"])

    def test_plans(self):
        told = tutti.plan("allreduce", "64K", ranks=4, topology="gpu:4 nvlink:6x25 nic:2x50", hosts=2)
        fit = [one for one in told.candidates if not hasattr(one, "excluded")]
        self.assertIn((told.algorithm, told.us), [(one.algorithm, one.us) for one in fit])
        self.assertEqual(tutti.plan("allreduce", ranks=2, direct=True).ranks, 2)

    def test_what_they_refuse(self):
        for ask, says in ((lambda: tutti.simulate("nodes many", "allreduce"), "nodes"),
                          (lambda: tutti.plan("allswap"), "the collectives are"),
                          (lambda: tutti.topology("gpu:many"), "many")):
            with self.assertRaisesRegex(tutti.InvalidArgument, says):
                ask()

    def test_programs_start_by_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "tutti-info")
            script.write_text(f"#!{sys.executable}\nfrom tutti._programs import main\nmain()\n")
            script.chmod(0o755)
            done = subprocess.run([script, "--version"], capture_output=True, text=True)
            self.assertIn(tutti.__version__, done.stdout, done.stderr)
            other = script.rename(pathlib.Path(folder, "tutti-nothing"))
            done = subprocess.run([other], capture_output=True, text=True)
            self.assertRegex(done.stderr, "tutti-nothing: there is no tutti-nothing: looked for")


if __name__ == "__main__":
    unittest.main()
