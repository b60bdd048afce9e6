#!/usr/bin/env python3
"""perf/oracle/curve on canned output of oracle.  usage: curve_test.py SOURCE"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(sys.argv.pop(1))
OUTPUT = """\
allreduce              8  4  oneshot/inline                     1.86 (expected       2.39)   the choice                         1.77     +5 %  planned    +0 %, learning  -29 %
allgather         524288  4  circulant/direct/joined           57.15 (expected      69.93)   circulant/direct                  57.15     +0 %  planned   +21 %, learning   +9 %
4 ranks: within 10 % of the best in 2 of 2 cells (100 %); mean loss 2 %, worst 5 %; the same data in all calls
one half of the rounds picks the best, the other half times it: the choice is within 10 % of it in 2 cells, mean loss -3 %; \
what is picked is within 10 % of the best of the other half in 1, mean 7 %
the first 100 calls: -10 % beside those of communicators that learn nothing
"""


def curve():
    loader = importlib.machinery.SourceFileLoader("curve", str(SOURCE / "perf/oracle/curve"))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader("curve", loader))
    loader.exec_module(made)
    return made


class Curve(unittest.TestCase):
    def setUp(self):
        self.curve = curve()

    def test_each_cell_is_read(self):
        self.assertEqual(self.curve.cells_of(OUTPUT), [(0.05, 0.0, -0.29), (0.0, 0.21, 0.09)])
        self.assertEqual(self.curve.cells_of("oracle: no such algorithm\n"), [])

    def test_the_judgement_by_halves_is_read(self):
        self.assertEqual(self.curve.halves_of(OUTPUT, 2), {"half_good": 1.0, "half_loss": -0.03, "agree": 0.5})
        self.assertEqual(self.curve.halves_of("one round\n", 2), {})

    def test_a_row_has_the_geometric_mean_of_the_times(self):
        row = self.curve.row_of([(0.0, 0.21, -0.2), (0.21, 1.0, 0.2)], {})
        self.assertAlmostEqual(row["loss"], 0.1)
        self.assertAlmostEqual(row["planned"], (1.21 * 2) ** 0.5 - 1)
        self.assertAlmostEqual(row["good"], 0.5)
        self.assertAlmostEqual(row["price"], (0.8 * 1.2) ** 0.5 - 1)
        self.assertIn("21%", self.curve.table({(4, 100): row}))
        self.assertRegex(self.curve.table({(4, 100): {**row, **self.curve.halves_of(OUTPUT, 2)}}), "-3% +100% +50%$")

    def test_the_plot_has_a_line_for_each_number_of_ranks(self):
        row = self.curve.row_of(self.curve.cells_of(OUTPUT), {})
        for rows in ({(2, 100): row}, {(ranks, calls): row for ranks in (2, 4, 8) for calls in (100, 1000)}):
            root = xml.etree.ElementTree.fromstring(self.curve.svg(rows, "a machine"))
            lines = [e for e in root if e.tag.endswith("polyline")]
            self.assertEqual(len(lines), len({ranks for ranks, _ in rows}))
            self.assertEqual(len(lines[0].get("points").split()), 1 + len({calls for _, calls in rows}))


if __name__ == "__main__":
    unittest.main()
