#!/usr/bin/env python3
"""Torch's own distributed tests, from the wheel of torch or from its repository, on the backend tutti and on Gloo.

usage: torch_suite.py [--backend gloo|tutti] [--ranks N] [--out FILE] [TEST...]
       torch_suite.py [--backend gloo|tutti] [--out FILE] --files FILE... [PYTEST_OPTION...]
       torch_suite.py --table GLOO_FILE TUTTI_FILE

Many of the tests ask for Gloo by name.  So tutti runs under that name: what torch would make a Gloo group of becomes one
of Tutti's, and every test that Gloo is given is given to Tutti too.  --out writes "outcome test reason" lines; --table
sets two such files side by side and fails if Tutti fails where Gloo passes, the tests of KNOWN aside.  --files: not the wheel's tests but those
in files of torch's repository (test/distributed/..., of the torch that is installed), by pytest."""
import argparse
import os
import pathlib
import sys
import tempfile
import time
import unittest


# Why they cannot pass under another name.
KNOWN = {"test_ddp_logging_data_cpu": "asks that DDP's log call the backend gloo"}


def substitute():
    """Groups of the backend "gloo" are Tutti's from now on."""
    import torch.distributed as dist

    import tutti.torch.group as group

    if not group.PYTHON_BACKENDS:
        return rename()

    def create(given, pg_options=None):
        made = group.create(given, None if type(pg_options).__name__ == "_Options" else pg_options)
        made._engine.name = "gloo"  # by which tests look for spans
        return made

    dist.Backend.register_backend("gloo", create, extended_api=True, devices=["cpu", "cuda"],
                                  _backend_type=dist.ProcessGroup.BackendType.CUSTOM)


def rename():
    """As substitute(), for older torch, which makes Gloo's groups itself whatever is registered under their name."""
    import torch.distributed.distributed_c10d as c10d

    import tutti.torch

    tutti.torch.register()
    make = c10d._new_process_group_helper

    def helper(size, rank, ranks, backend, *rest, **named):
        for name in ("backend_options", "pg_options"):
            if type(named.get(name)).__name__ == "_Options":
                named[name] = None  # of Gloo's class
        return make(size, rank, ranks, type(backend)("tutti") if "gloo" in str(backend) else backend, *rest, **named)

    c10d._new_process_group_helper = helper


def suite_of(names):
    """The test class as torch's own test files make it; ranks are forked, which saves each of them the import."""
    from torch.testing._internal.distributed import distributed_test
    import torch

    class TestDistributed(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    loader = unittest.TestLoader()
    if names:
        return unittest.TestSuite(TestDistributed(name) for name in names)
    return loader.loadTestsFromTestCase(TestDistributed)


class Outcomes(unittest.TextTestResult):
    """One line per test, as soon as it is known."""
    out = None

    def startTest(self, test):
        super().startTest(test)
        self.began = time.time()

    def _tell(self, outcome, test, reason=""):
        name = test._testMethodName if hasattr(test, "_testMethodName") else str(test)
        line = f"{outcome} {name} {' '.join(str(reason).split())[-300:]}".rstrip()
        print(f"{line[:200]}  ({time.time() - self.began:.1f} s)", flush=True)
        if self.out:
            self.out.write(line + "\n")
            self.out.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self._tell("passed", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._tell("failed", test, error[1])

    def addError(self, test, error):
        super().addError(test, error)
        self._tell("failed", test, error[1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._tell("skipped", test, reason)


class FileOutcomes:
    """A plugin of pytest that does what Outcomes does."""

    def __init__(self, out):
        self.out = out

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longreprtext
            self.out.write(f"{report.outcome} {report.nodeid.replace(' ', '_')} {' '.join(reason.split())[-300:]}".rstrip() + "\n")
            self.out.flush()


FINISHED = 100  # and pytest's code, of processes that have run all tests of a file


def run_files(arguments):
    import pytest
    import torch
    from torch.testing._internal.common_distributed import MultiProcessTestCase
    # A forked rank need not import torch.
    MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(torch.multiprocessing.get_context("fork").Process)
    if arguments.backend == "tutti":
        substitute()
    options = [argument for argument in arguments.files if argument.startswith("-")]
    codes = []
    for path in arguments.files:
        if path in options:
            continue
        # In a process of its own, as some files leave a process group behind.
        child = os.fork()
        if child == 0:
            with open(arguments.out or os.devnull, "a") as out:
                code = pytest.main(["-q", "-p", "no:cacheprovider", *options, path], plugins=[FileOutcomes(out)])
            sys.stdout.flush()
            os._exit(FINISHED + code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - FINISHED
        if code < 0 and arguments.out:
            with open(arguments.out, "a") as out:
                out.write(f"failed {path} its process ended before its tests\n")
        codes.append(code not in (0, 5))  # 5: there was no test
    return int(any(codes))


def run(arguments):
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(arguments.ranks))
    folder = tempfile.mkdtemp(prefix="tutti-torch-suite-")
    os.environ["TEMP_DIR"] = folder
    for name in ("barrier", "test_dir", "init_dir"):
        os.mkdir(os.path.join(folder, name))
    sys.argv[1:] = []
    if arguments.backend == "tutti":
        substitute()
    if arguments.out:
        Outcomes.out = open(arguments.out, "w")
    result = unittest.TextTestRunner(resultclass=Outcomes, verbosity=0).run(suite_of(arguments.tests))
    return 0 if result.wasSuccessful() else 1


def outcomes(path):
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        outcome, name, *reason = line.split(" ", 2)
        found[name] = (outcome, " ".join(reason))
    return found


def table(gloo_path, tutti_path):
    gloo, tutti = outcomes(gloo_path), outcomes(tutti_path)
    count = {name: [sum(1 for o, _ in rows.values() if o == name) for rows in (gloo, tutti)]
             for name in ("passed", "failed", "skipped")}
    print("| | Gloo | Tutti |\n|---|---|---|")
    for name, (first, second) in count.items():
        print(f"| {name} | {first} | {second} |")
    worse = [name for name in gloo if gloo[name][0] == "passed" and tutti.get(name, ("missing", ""))[0] != "passed"]
    for name in sorted({*gloo, *tutti}):
        pair = gloo.get(name, ("missing", "")), tutti.get(name, ("missing", ""))
        if pair[0][0] != pair[1][0] or "failed" in (pair[0][0], pair[1][0]):
            print(f"{name}: Gloo {pair[0][0]} {pair[0][1][-120:]}; Tutti {pair[1][0]} {pair[1][1][-120:]}")
    print(f"{len(worse)} tests that Gloo passes and Tutti does not" + (": " + ", ".join(worse) if worse else ""))
    for name in worse:
        print(f"{name}: {KNOWN.get(name, 'not known')}")
    return 1 if set(worse) - set(KNOWN) else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["gloo", "tutti"], default="tutti")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--out")
    parser.add_argument("--table", nargs=2)
    parser.add_argument("--files", nargs=argparse.REMAINDER)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    if arguments.files:
        sys.exit(run_files(arguments))
    sys.exit(table(*arguments.table) if arguments.table else run(arguments))


if __name__ == "__main__":
    main()
