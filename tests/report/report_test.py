#!/usr/bin/env python3
"""tutti-report as a user calls it: one file, without any other, that has what was measured.
usage: report_test.py TUTTI_REPORT"""
import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPORT = sys.argv[1]
# HTML's elements without an end, and SVG's, which end by themselves.
ALONE = {"meta", "img", "br", "line", "circle", "rect", "path", "polyline", "polygon", "text"}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.links, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if tag not in ALONE:
            assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
            self.open.pop()

    def handle_data(self, data):
        self.words.append(data)


def report(*arguments, status=0):
    done = subprocess.run([REPORT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done


class Report(unittest.TestCase):
    def test_a_page_has_the_machine_and_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            done = report("-n", "2", "-b", "64", "-e", "4K", "--collectives", "all_reduce,alltoall", "-o", str(path))
            self.assertIn("2 collectives on 2 ranks", done.stdout)
            self.assertEqual(done.stderr, "")
            text = path.read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.seen.count("svg"), 3)  # the overview, and each collective
        self.assertTrue(all(link.startswith(("#", "data:image/svg+xml,")) for link in page.links), page.links)
        self.assertEqual([link for link in page.links if link.startswith("#")], ["#all_reduce", "#alltoall"])
        words = " ".join(page.words)
        for said in ("memcpy, all ranks at once", "expected", "in place", "findings of", "4 KiB", "2 ranks as processes"):
            self.assertIn(said, words)
        self.assertIn("<polygon", text)  # where 8 of 10 calls are
        self.assertRegex(words, r"\w+/\w+/\d+")  # a plan
        self.assertNotIn("nan", re.sub(r"data:\S+", "", text))

    def test_a_collective_that_fails_is_said_and_the_rest_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            done = subprocess.run(["env", "TUTTI_ALGO=alltoall:direct,allreduce:nothing", REPORT, "-n", "2", "-e", "64",
                                   "--collectives", "all_reduce", "-o", str(path)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(done.returncode, 1)
            self.assertIn("1 failed", done.stdout)
            self.assertIn("TUTTI-5104", done.stderr)
            self.assertIn("class=bad>ended with status", path.read_text(encoding="utf-8"))

    def test_what_it_cannot_do_is_refused(self):
        self.assertIn("--min x is not a size", report("-b", "x", status=1).stderr)
        self.assertIn("--max 4 is not a size of --min", report("-e", "4", status=1).stderr)
        with tempfile.TemporaryDirectory() as folder:
            said = report("-n", "2", "-e", "8", "--collectives", "broadcast", "-o", folder + "/missing/page.html", status=1)
            self.assertIn("cannot write", said.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
