"""Runs one module of tests: exit status 77 (skipped) where it needs numpy and there is none.
usage: run_test.py MODULE"""
import importlib
import sys
import unittest


def main(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        print(f"skipped: {sys.executable} has no numpy")
        return 77
    done = unittest.main(module=module, argv=[name], exit=False).result
    return 0 if done.wasSuccessful() and done.testsRun else 1


sys.exit(main(sys.argv[1]))
