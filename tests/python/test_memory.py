"""Arrays in memory that peers read where it lies: that they are there, that they work as arrays, that they go."""
import gc
import importlib.util
import unittest

import numpy as np
import tutti
from support import good, processes, ranks
from tutti import _calls


def shared(array):
    """Whether an array's memory is a mapping that other processes can have."""
    address = array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, mode = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if begin <= address < end:
                return mode[3] == "s"
    return False


class Memory(unittest.TestCase):
    def test_arrays_of_numpy_in_shared_memory(self):
        x = tutti.memory.empty((3, 5), "float64")
        self.assertTrue(shared(x) and not x.any() and x.flags.c_contiguous)
        y = tutti.memory.copy_of(np.arange(15.0).reshape(3, 5))
        np.testing.assert_array_equal(y, np.arange(15.0).reshape(3, 5))
        self.assertEqual(tutti.memory.empty(0).size, 0)
        self.assertFalse(shared(np.zeros(1 << 16)))

    def test_memory_goes_with_its_last_array(self):
        x = tutti.memory.empty(1 << 20, "uint8")
        address, part = x.ctypes.data, x[10:20]
        del x
        gc.collect()
        part[:] = 1  # still there
        del part
        gc.collect()
        with open("/proc/self/maps") as maps:
            self.assertNotIn(f"{address:x}-", maps.read())

    @unittest.skipIf(_calls._core is None, "by ctypes there is no allocator")
    def test_numpy_makes_arrays_there(self):
        with tutti.memory.arrays():
            x, small = np.ones((400, 300)), np.ones(10)
            y = x + 1
            x.resize((500, 300), refcheck=False)
            z = np.zeros(1 << 17, "u1")
        self.assertTrue(shared(x) and shared(y) and shared(z) and not shared(small))
        np.testing.assert_array_equal(x[:400], 1)
        np.testing.assert_array_equal(x[400:], 0)
        self.assertTrue((y == 2).all() and not z.any())
        self.assertFalse(shared(np.ones((400, 300))))
        with self.assertRaises(MemoryError), tutti.memory.arrays():
            np.empty(1 << 62, "u1")

    @unittest.skipIf(_calls._core is not None, "with the extension module there is one")
    def test_without_the_extension_it_is_refused(self):
        with self.assertRaisesRegex(tutti.InvalidArgument, "tutti._core"), tutti.memory.arrays():
            pass

    def test_registered_arrays_of_processes_are_mapped_while_they_are(self):
        status, output = processes(2, """
            import numpy as np, tutti
            def mapped(x):
                page = (x.ctypes.data + 4095) // 4096 * 4096
                with open("/proc/self/maps") as maps:
                    for line in maps:
                        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                        if begin <= page < end:
                            return "memfd:tutti" in line and line.split()[1] == "rw-s"
            with tutti.Communicator.from_env(timeout=20) as comm:
                x = np.full(100_003, comm.rank + 1, "f8")
                with comm.register(x):
                    assert mapped(x)
                    comm.all_reduce(x)
                assert not mapped(x) and (x == 3).all()
        """)
        self.assertEqual(status, 0, output)

    def test_calls_on_it(self):
        def body(comm):
            x = tutti.memory.copy_of(np.full(100_000, comm.rank + 1, "f4"))
            comm.all_reduce(x)
            self.assertTrue((x == 6).all())
        good(ranks(3, body))
        status, output = processes(3, """
            import tutti
            with tutti.Communicator.from_env(timeout=20) as comm:
                x = tutti.memory.allocate(300_000)
                x[comm.rank] = x[299_999] = 1
                comm.all_reduce(x)
                assert list(x[:4]) == [1, 1, 1, 0] and x[299_999] == 3
            """)
        self.assertEqual(status, 0, output)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_tensors_of_torch(self):
        import torch
        with tutti.memory.tensors():
            x, small = torch.randn(200, 200, requires_grad=True), torch.ones(3)
        self.assertTrue(shared(x) and x.requires_grad and not shared(small) and not shared(torch.ones(200, 200)))
        model = torch.nn.Linear(300, 300)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        before = model.weight.detach().clone()
        tutti.memory.share(model)
        self.assertTrue(shared(model.weight) and torch.equal(model.weight, before))
        model(torch.ones(300)).sum().backward()
        optimizer.step()
        self.assertTrue(shared(model.weight) and not torch.equal(model.weight, before))


if __name__ == "__main__":
    unittest.main()
