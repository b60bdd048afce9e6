"""Whose memory is what: every protocol, and what is wrong with bad arrays."""
import array
import ctypes
import importlib.util
import unittest

import numpy
import tutti
from tutti._calls import array as read

TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
         "int16": 12, "uint16": 13, "bool": 14}


class Interface:
    """What other libraries' arrays are: one protocol and nothing else."""

    def __init__(self, of, **changes):
        self.of = of
        self.__array_interface__ = {**of.__array_interface__, **changes}


class Cuda:
    def __init__(self, of, **changes):
        self.of = of
        self.__cuda_array_interface__ = {**of.__array_interface__, "version": 3, **changes}


class DLPack:
    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **options):
        return self.of.__dlpack__()

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


class Jax(DLPack):
    """Immutable, which its DLPack does not say."""
    __module__ = "jaxlib._jax"


class Memory(unittest.TestCase):
    def test_every_type_of_numpy(self):
        for name, code in TYPES.items():
            x = numpy.zeros((3, 5), name)
            self.assertEqual(read(x, True, -1), (x.ctypes.data, 15, code, x.itemsize), name)
            self.assertEqual(read(x[1:], True, -1), (x[1:].ctypes.data, 10, code, x.itemsize), name)

    def test_shapes_that_are_contiguous_all_the_same(self):
        for x in (numpy.zeros(()), numpy.zeros((0, 4)), numpy.zeros((1, 5))[:, :], numpy.zeros((4, 1, 2))[:, :1],
                  numpy.zeros((4, 3))[::2][:1], numpy.zeros((0, 3))[:, ::2]):
            for what in (x, Interface(x), DLPack(x)):
                self.assertEqual(read(what, False, -1)[1], x.size, (x.shape, type(what)))

    def test_other_protocols_say_the_same_as_numpy(self):
        for name in TYPES:
            x = numpy.ones((2, 3), name)
            self.assertEqual(read(Interface(x), True, -1), read(x, True, -1), name)
            if name != "bool":  # numpy 1.24 exports none by DLPack
                self.assertEqual(read(DLPack(x), True, -1), read(x, True, -1), name)
            self.assertEqual(read(memoryview(x), True, -1), read(x, True, -1), name)

    def test_buffers_of_python(self):
        words = array.array("d", [1, 2, 3])
        self.assertEqual(read(words, True, -1), (words.buffer_info()[0], 3, 8, 8))
        self.assertEqual(read(bytearray(7), True, -1)[1:], (7, 1, 1))
        self.assertEqual(read(b"abc", False, -1)[1:], (3, 1, 1))
        numbers = (ctypes.c_int * 4)()
        self.assertEqual(read(numbers, True, -1), (ctypes.addressof(numbers), 4, 2, 4))
        self.assertEqual(read(bytearray(), True, -1)[1], 0)

    def test_memory_without_an_array(self):
        x = numpy.zeros(6, "uint16")
        self.assertEqual(read(tutti.Buffer(x.ctypes.data, 6, "bfloat16"), True, -1), (x.ctypes.data, 6, 9, 2))
        self.assertEqual(read(tutti.as_dtype(x, "float8_e4m3"), True, -1), (x.ctypes.data, 12, 10, 1))
        with self.assertRaisesRegex(tutti.InvalidArgument, "no whole elements"):
            tutti.as_dtype(numpy.zeros(3, "uint8"), "float32")
        with self.assertRaisesRegex(tutti.InvalidArgument, "is not one of"):
            tutti.Buffer(0, 0, "float128")


class Refused(unittest.TestCase):
    def check(self, what, says, writable=True, device=-1):
        with self.assertRaisesRegex(tutti.InvalidArgument, says) as caught:
            read(what, writable, device)
        self.assertEqual((caught.exception.code, caught.exception.name), (4, "tuttiInvalidArgument"))

    def test_not_contiguous(self):
        x = numpy.zeros((4, 4))
        for bad in (x.T, x[:, :2], x[::2], x[:, ::-1]):
            for what in (bad, Interface(bad), DLPack(bad), memoryview(bad)):
                self.check(what, r"not contiguous.*ascontiguousarray")

    def test_types_that_tutti_lacks(self):
        for dtype in ("complex64", "longdouble", "datetime64[s]", "S3", "O"):
            self.check(numpy.zeros(3, dtype), "which Tutti lacks")
        self.check(numpy.zeros(3, "f4,i4"), "which Tutti lacks")
        self.check(DLPack(numpy.zeros(3, "complex64")), "which Tutti lacks")

    def test_the_other_byte_order(self):
        self.check(numpy.zeros(3, ">f4"), "other byte order")
        self.assertEqual(read(numpy.zeros(3, ">i1"), True, -1)[1], 3)

    def test_read_only(self):
        x = numpy.zeros(3)
        x.flags.writeable = False
        for what in (x, Interface(x), memoryview(x), b"abc", Jax(numpy.zeros(3))):
            read(what, False, -1)
            self.check(what, "is read-only.*pass a writable array")

    @unittest.skipUnless(importlib.util.find_spec("jax"), "jax is not installed")
    def test_arrays_of_jax_do_not_change(self):
        import jax.numpy
        x = jax.numpy.ones(3, "bfloat16")
        self.assertEqual(read(x, False, -1)[1:], (3, 9, 2))
        self.check(x, "is read-only.*pass a writable array")

    def test_no_array(self):
        for what in ([1, 2], 3.5, "text", object(), {}):
            self.check(what, "is not an array.*numpy.asarray")

    def test_wrong_device(self):
        self.check(Cuda(numpy.zeros(3)), "on CUDA device 0, but the communicator computes on the host")
        self.assertEqual(read(Cuda(numpy.zeros(3)), True, 0)[1], 3)
        self.check(Cuda(numpy.zeros(3)), "on CUDA device 0, but this rank computes on device 1", device=1)


if __name__ == "__main__":
    unittest.main()
