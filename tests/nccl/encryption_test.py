#!/usr/bin/env python3
"""ncclSetEncryption (2.32): a key has all connections encrypted, or is refused with a reason; two processes use it.
usage: encryption_test.py LIBRARY"""
import ctypes
import os
import subprocess
import sys
import unittest

MAGIC, FLOAT, SUM = 0xcafebeef, 7, 0
INVALID_ARGUMENT = 4
KEY = b"a key of thirty-two bytes or more"


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("mode", ctypes.c_int),
                ("psk", ctypes.c_char_p)]


def load(path):
    library = ctypes.CDLL(path)
    library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    library.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                      ctypes.c_void_p, ctypes.c_void_p]
    library.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    return library


def set_encryption(library, mode, key, magic=MAGIC):
    config = Config(ctypes.sizeof(Config), magic, 23203, mode, key)
    return library.ncclSetEncryption(ctypes.byref(config))


def rank(path, number, encrypts):
    """One rank of two; rank 0 prints the id, rank 1 reads it."""
    library = load(path)
    if encrypts and set_encryption(library, 1, KEY) != 0:
        return 3
    unique = UniqueId()
    if number == 0:
        assert library.ncclGetUniqueId(ctypes.byref(unique)) == 0
        print(bytes(unique.internal).hex(), flush=True)
    else:
        ctypes.memmove(ctypes.byref(unique), bytes.fromhex(sys.stdin.readline().strip()), 128)
    comm, values = ctypes.c_void_p(), (ctypes.c_float * 5)(*([number + 1.0] * 5))
    if library.ncclCommInitRank(ctypes.byref(comm), 2, unique, number) != 0:
        return 4
    at = ctypes.addressof(values)
    assert library.ncclAllReduce(at, at, 5, FLOAT, SUM, comm, None) == 0
    assert list(values) == [3.0] * 5
    return library.ncclCommDestroy(comm)


class Encryption(unittest.TestCase):
    def test_what_is_no_configuration_is_refused(self):
        library = load(PATH)
        self.assertEqual(library.ncclSetEncryption(None), 0)
        self.assertEqual(set_encryption(library, 0, None), 0)
        for mode, key, magic in ((1, None, MAGIC), (1, b"short", MAGIC), (2, KEY, MAGIC), (1, KEY, 7)):
            self.assertEqual(set_encryption(library, mode, key, magic), INVALID_ARGUMENT, (mode, key, magic))

    def run_ranks(self, encrypts):
        environment = os.environ | {"TUTTI_DEVICE": "host", "TUTTI_TRANSPORTS": "self,tcp", "TUTTI_LOG": "tcp:debug",
                                    "TUTTI_TIMEOUT_MS": "20000"}
        command = [sys.executable, os.path.abspath(__file__), PATH]
        first = subprocess.Popen(command + ["0", str(encrypts[0])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=environment)
        second = subprocess.run(command + ["1", str(encrypts[1])], input=first.stdout.readline(), capture_output=True, text=True,
                                env=environment, timeout=50, check=False)
        said = first.communicate(timeout=50)[1]
        return first.returncode, second.returncode, said + second.stderr

    def test_two_processes_with_a_key(self):
        first, second, said = self.run_ranks((1, 1))
        if "cannot be used" in said:
            self.skipTest("there is no libcrypto")
        self.assertEqual((first, second), (0, 0), said)
        self.assertEqual(said.count("bytes are under TUTTI_ENCRYPT=1"), 2, said)

    def test_one_that_lacks_it_hears_so(self):
        first, second, said = self.run_ranks((1, 0))
        if "cannot be used" in said:
            self.skipTest("there is no libcrypto")
        self.assertEqual((first, second), (4, 4), said)


if __name__ == "__main__":
    PATH = sys.argv[1]
    if len(sys.argv) > 2:
        sys.exit(rank(PATH, int(sys.argv[2]), sys.argv[3] == "1"))
    unittest.main(argv=sys.argv[:1], verbosity=2)
