#!/usr/bin/env python3
"""Compiles and runs every program of a document, and compares what it prints with what the document says.
usage: guide_test.py DOCUMENT TUTTI_RUN INCLUDE_DIR LIBRARY [CC...]

A comment in front of a fenced block says what it is:
    file: NAME                       kept under this name for the programs that follow
    run: alone | N ranks [with FLAGS of tutti-run] | N ranks of LAUNCHER | shell [with PROGRAM, else skipped]
    compile: COMPILER                instead of the one given; skipped without it
    shown: WHY                       only shown: the machine may lack what it needs
    status: N                        what the run ends with, if not 0
    prints: REGEX                    a line of the output that is in there
A shell block finds the last program as ./program.  Exit status 0: all did what the document says.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^(?:<!-- (?P<say>.*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


def directions(text):
    """{"run": ..., "prints": ...} of a comment."""
    return dict(part.split(": ", 1) for part in re.split(r"; (?=run: |compile: |status: |prints: )", text or "") if part)


class Guide:
    def __init__(self, run, include, library, cc, folder):
        self.run, self.include, self.library, self.cc, self.folder = run, include, library, cc, folder
        self.environment = dict(os.environ, TUTTI_TIMEOUT_MS="60000", OMPI_MCA_rmaps_base_oversubscribe="1",
                                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                PATH=os.path.dirname(run) + ":" + os.environ["PATH"])

    def compile(self, text, cc):
        source = os.path.join(self.folder, "program.c")
        with open(source, "w") as f:
            f.write(text)
        done = subprocess.run([*cc, "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", self.include, source,
                               "-o", os.path.join(self.folder, "program"), self.library,
                               "-Wl,-rpath," + os.path.dirname(self.library)], capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def command(self, text, how):
        launched = re.fullmatch(r"(\d+) ranks of (\w+)", how)
        if launched:
            return [launched.group(2), "-n", launched.group(1), "./program"]
        ranks = re.fullmatch(r"(\d+) ranks(?: with (.*))?", how)
        if ranks:
            return [self.run, "-n", ranks.group(1), *(ranks.group(2) or "").split(), "./program"]
        return ["sh", "-e", "-c", text] if how.startswith("shell") else ["./program"]

    def check(self, block):
        """"" or what is wrong with the block; "skipped..." if it cannot be run here."""
        say, language, text = directions(block["say"]), block["language"], block["text"]
        if "file" in say:
            with open(os.path.join(self.folder, say["file"]), "w") as f:
                f.write(text)
            return ""
        if "shown" in say:
            return "skipped: " + say["shown"]
        if "run" not in say or "prints" not in say:
            return "no comment says how it is run and what it prints"
        needs = re.findall(r"(?:shell with|ranks of) (\w+)", say["run"]) + [say[key] for key in ("compile",) if key in say]
        for name in needs:
            if shutil.which(name) is None:
                return f"skipped: there is no {name}"
        if language == "c":
            complaint = self.compile(text, [say["compile"]] if "compile" in say else self.cc)
            if complaint:
                return complaint
        try:
            done = subprocess.run(self.command(text, say["run"]), cwd=self.folder, env=self.environment,
                                  capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "not done after 120 s"
        if done.returncode != int(say.get("status", 0)):
            return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        if not re.search(say["prints"], done.stdout):
            return f"does not print '{say['prints']}' but\n{done.stdout}{done.stderr}"
        return ""


def main():
    path, run, include, library, *cc = sys.argv[1:]
    with open(path) as f:
        text = f.read()
    bad = count = 0
    with tempfile.TemporaryDirectory() as folder:
        guide = Guide(os.path.abspath(run), os.path.abspath(include), os.path.abspath(library), cc or ["cc"], folder)
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            complaint = guide.check(block)
            count += 1
            bad += bool(complaint) and not complaint.startswith("skipped")
            print(f"line {line}: {complaint or 'ok'}")
    print(f"{count} blocks, {bad} bad")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
