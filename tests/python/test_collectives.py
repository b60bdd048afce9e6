"""Every call of a communicator against numpy, with odd numbers of ranks, zero elements and unaligned arrays; and what it
refuses."""
import gc
import threading
import unittest

import numpy
import tutti
from support import good, ranks

N = 3
COUNTS = (0, 1, 7, 4099)


def inputs(n, count, dtype="float32", seed=0):
    """One array per rank, of small whole numbers."""
    return [numpy.random.default_rng((seed, rank)).integers(0, 9, count).astype(dtype) for rank in range(n)]


def unaligned(x):
    """The same elements at an odd address."""
    raw = numpy.zeros(x.nbytes + 1, "uint8")
    y = raw[1:].view(x.dtype)
    y[...] = x
    return y


class Calls(unittest.TestCase):
    def check(self, body, n=N):
        """body(comm, count, place) is empty or a complaint; in memory of each kind, on the caller's thread and a stream."""
        def all_of_them(comm):
            for count in COUNTS:
                for place in (numpy.copy, unaligned, tutti.memory.copy_of):
                    body(comm, count, place, None)
                with tutti.Stream() as stream:
                    body(comm, count, numpy.copy, stream)

        good(ranks(n, all_of_them))

    def same(self, got, expected, stream):
        if stream is not None:
            stream.synchronize()
        numpy.testing.assert_array_equal(got, expected)

    def test_all_reduce(self):
        def body(comm, count, place, stream):
            for op, combine in ((tutti.SUM, numpy.add), (tutti.MAX, numpy.maximum), (tutti.MIN, numpy.minimum)):
                xs = inputs(N, count)
                x, y = place(xs[comm.rank]), place(numpy.zeros(count, "f4"))
                comm.all_reduce(x, y, op, stream=stream)
                self.same(y, combine.reduce(xs), stream)
                comm.all_reduce(x, op=op, stream=stream)
                self.same(x, combine.reduce(xs), stream)
        self.check(body)

    def test_reduce_and_broadcast(self):
        def body(comm, count, place, stream):
            xs = inputs(N, count, "int64")
            for root in range(N):
                x, y = place(xs[comm.rank]), place(numpy.zeros(count, "i8")) if comm.rank == root else None
                comm.reduce(x, y, root=root, stream=stream)
                if comm.rank == root:
                    self.same(y, sum(xs), stream)
                comm.reduce(x, root=root, stream=stream)
                self.same(x, sum(xs) if comm.rank == root else xs[comm.rank], stream)
                comm.broadcast(x, root, stream=stream)
                self.same(x, sum(xs), stream)
                z = place(numpy.zeros(count, "i8"))
                comm.broadcast(x if comm.rank == root else None, root, z, stream=stream)
                self.same(z, sum(xs), stream)
        self.check(body)

    def test_all_gather_and_reduce_scatter(self):
        def body(comm, count, place, stream):
            xs = inputs(N, count, "float64")
            y = place(numpy.zeros(N * count))
            comm.all_gather(place(xs[comm.rank]), y, stream=stream)
            self.same(y, numpy.concatenate(xs), stream)
            y = numpy.zeros(N * count)
            mine = slice(comm.rank * count, (comm.rank + 1) * count)
            y[mine] = xs[comm.rank]
            y = place(y)
            comm.all_gather(None, y, stream=stream)
            self.same(y, numpy.concatenate(xs), stream)
            ys, z = inputs(N, N * count, "float64", 1), place(numpy.zeros(count))
            y = place(ys[comm.rank])
            comm.reduce_scatter(y, z, stream=stream)
            self.same(z, sum(ys)[mine], stream)
            comm.reduce_scatter(y, stream=stream)
            self.same(y[mine], sum(ys)[mine], stream)
        self.check(body)

    def test_all_to_all(self):
        def body(comm, count, place, stream):
            xs = inputs(N, N * count, "uint8")
            expected = numpy.concatenate([x[comm.rank * count:(comm.rank + 1) * count] for x in xs])
            x, y = place(xs[comm.rank]), place(numpy.zeros(N * count, "u1"))
            comm.all_to_all(x, y, stream=stream)
            self.same(y, expected, stream)
            comm.all_to_all(x, stream=stream)
            self.same(x, expected, stream)
        self.check(body)

    def test_gather_and_scatter(self):
        def body(comm, count, place, stream):
            xs = inputs(N, count, "int16")
            for root in range(N):
                y = place(numpy.zeros(N * count, "i2")) if comm.rank == root else None
                comm.gather(place(xs[comm.rank]), y, root, stream=stream)
                if comm.rank == root:
                    self.same(y, numpy.concatenate(xs), stream)
                z = place(numpy.zeros(count, "i2"))
                comm.scatter(y, z, root, stream=stream)
                self.same(z, xs[comm.rank], stream)
                if comm.rank == root:  # in place: one's own block lies in the whole array
                    y[comm.rank * count:(comm.rank + 1) * count] = 99
                    comm.scatter(y, None, root, stream=stream)
                    comm.gather(None, y, root, stream=stream)
                    if stream:
                        stream.synchronize()
                    self.assertTrue((y[comm.rank * count:(comm.rank + 1) * count] == 99).all())
                else:
                    comm.scatter(None, z, root, stream=stream)
                    comm.gather(z, None, root, stream=stream)
        self.check(body)

    def test_send_and_receive(self):
        def body(comm, count, place, stream):
            xs, y = inputs(N, count), place(numpy.zeros(count, "f4"))
            with tutti.group():
                comm.send(place(xs[comm.rank]), (comm.rank + 1) % N, stream=stream)  # nobody but the group keeps this copy
                gc.collect()
                comm.recv(y, (comm.rank - 1) % N, stream=stream)
            self.same(y, xs[comm.rank - 1], stream)
        self.check(body)

    def test_counts_per_rank(self):
        def body(comm, count, place, stream):
            counts = [count, 0, count + 2]
            displs = [count + 3, 1, 0]  # in the other order, with a gap
            total, r = 2 * count + 3, comm.rank
            xs = [x[:c] for x, c in zip(inputs(N, count + 2), counts)]
            whole = numpy.full(total, 7, "f4")
            for x, c, d in zip(xs, counts, displs):
                whole[d:d + c] = x
            y = place(numpy.full(total, 7, "f4"))
            comm.all_gather_v(place(xs[r]), y, counts, displs, stream=stream)
            self.same(y, whole, stream)
            z = place(numpy.zeros(counts[r], "f4"))
            comm.reduce_scatter_v(y, z, counts, displs, stream=stream)
            self.same(z, N * xs[r], stream)
            for root in range(N):
                y = place(numpy.full(total, 7, "f4")) if r == root else None
                comm.gather_v(place(xs[r]), y, counts if r == root else None, displs, root, stream=stream)
                if r == root:
                    self.same(y, whole, stream)
                comm.scatter_v(y, z, counts if r == root else None, displs, root, stream=stream)
                self.same(z, xs[r], stream)
        self.check(body)

    def test_all_to_all_with_counts(self):
        def body(comm, count, place, stream):
            r = comm.rank
            sends = [[(count + 3 * i + j) % 5 * (count > 0) for j in range(N)] for i in range(N)]  # sends[i][j]: i to j
            blocks = [[numpy.full(sends[i][j], 10 * i + j, "i4") for j in range(N)] for i in range(N)]
            x = numpy.concatenate(blocks[r])
            receives = [sends[i][r] for i in range(N)]
            y = place(numpy.zeros(sum(receives), "i4"))
            comm.all_to_all_v(place(x), sends[r], y, receives, stream=stream)
            self.same(y, numpy.concatenate([blocks[i][r] for i in range(N)]), stream)
        self.check(body)

    def test_buffers_of_python_are_sent(self):
        def body(comm):
            data = bytearray(b"hello") if comm.rank == 1 else bytearray(5)
            comm.broadcast(data, root=1)
            self.assertEqual(data, b"hello")
            with tutti.Stream() as stream:
                comm.broadcast(data, root=1, stream=stream)
                with self.assertRaises(BufferError):  # the stream holds it in place
                    data.extend(b"more")
                stream.synchronize()
                data.extend(b"more")
        good(ranks(2, body))


class OperatorsAndStreams(unittest.TestCase):
    def test_functions_as_operators(self):
        def body(comm):
            xs = inputs(4, 1000, "int32")
            with comm.create_op(lambda a, b: numpy.maximum(a, b)) as largest:
                x = xs[comm.rank].copy()
                comm.all_reduce(x, op=largest)
                numpy.testing.assert_array_equal(x, numpy.maximum.reduce(xs))

            def second(a, b):  # keeps b, the higher rank's: changed in place, so nothing is returned
                b[...] = b
            ordered, x = comm.create_op(second, commutative=False), xs[comm.rank].copy()
            with tutti.Stream() as stream:
                comm.all_reduce(x, op=ordered, stream=stream)
            numpy.testing.assert_array_equal(x, xs[-1])
            scaled = comm.create_premul_sum(comm.rank + 1, "int32")
            x = xs[comm.rank].copy()
            comm.all_reduce(x, op=scaled)
            numpy.testing.assert_array_equal(x, sum((r + 1) * y for r, y in enumerate(xs)))
        good(ranks(4, body))

    def test_an_exception_of_a_function_reaches_its_caller(self):
        def body(comm):
            def broken(a, b):
                raise ZeroDivisionError("mine")
            op, x = comm.create_op(broken), numpy.ones(3)
            try:
                comm.all_reduce(x, op=op)
                return 0
            except ZeroDivisionError:
                return 1
        self.assertGreater(sum(good(ranks(2, body))), 0)

    def test_events_order_streams(self):
        def body(comm):
            x = numpy.ones(100_000)
            with tutti.Stream() as first, tutti.Stream() as second:
                for _ in range(200):  # many, so that the stream lets go of arrays on the way
                    comm.all_reduce(x, op=tutti.AVG, stream=first)
                event = first.record()
                second.wait_event(event)
                comm.all_reduce(x, stream=second)
                second.synchronize()
                self.assertTrue(event.query())
                self.assertTrue((x == 3).all())
                first.synchronize()  # its thread may still be on its way from the event
                self.assertTrue(first.query())
                self.assertFalse(first._open or first._sealed)
        good(ranks(3, body))

    def test_a_group_that_fails_starts_nothing(self):
        def body(comm):
            x = numpy.ones(3)
            with self.assertRaises(KeyError), tutti.group():
                comm.all_reduce(x)
                raise KeyError
            self.assertTrue((x == 1).all())
            with tutti.group(simulate=True) as simulated:
                comm.all_reduce(x)
            self.assertGreater(simulated.time_us, 0)
            self.assertTrue((x == 1).all())
            comm.all_reduce(x)
            self.assertTrue((x == 2).all())
        good(ranks(2, body))

    def test_one_thread_with_several_ranks(self):
        comms, xs = tutti.Communicator.init_all(3), [numpy.full(5, r) for r in range(3)]
        with tutti.group():
            for comm, x in zip(comms, xs):
                comm.all_reduce(x)
        for x in xs:
            self.assertTrue((x == 3).all())
        with tutti.group():
            unique_id = tutti.get_unique_id()
            more = [tutti.Communicator.init(2, rank, unique_id) for rank in range(2)]
        self.assertEqual([(c.rank, c.size) for c in more], [(0, 2), (1, 2)])
        for comm in (*comms, *more):
            comm.abort()


class Communicators(unittest.TestCase):
    def test_split_shrink_and_grow(self):
        grown, joined = tutti.get_unique_id(), [None]

        def newcomer():
            with tutti.Communicator.join(4, 3, grown) as comm:
                x = numpy.ones(2)
                comm.all_reduce(x)
                joined[0] = x[0]

        def body(comm):
            with comm.split(comm.rank % 2, key=-comm.rank) as half:
                seen = (half.rank, half.size)
            self.assertIsNone(comm.split(None))
            with comm.grow(4, grown if comm.rank == 1 else None) as larger:
                x = numpy.ones(2)
                larger.all_reduce(x)
            if comm.rank == 2:
                return seen, x[0]
            with comm.shrink(exclude=[2]) as smaller:
                self.assertEqual(smaller.size, 2)
            return seen, x[0]

        thread = threading.Thread(target=newcomer)
        thread.start()
        results = []
        comms = tutti.Communicator.init_all(3)
        threads = [threading.Thread(target=lambda c=c: results.append(_outcome(body, c))) for c in comms]
        for t in threads:
            t.start()
        for t in (*threads, thread):
            t.join()
        for comm in comms:
            comm.abort()
        self.assertEqual(sorted(good(results)), [((0, 1), 4.0), ((0, 2), 4.0), ((1, 2), 4.0)])
        self.assertEqual(joined, [4.0])

    def test_options_and_estimates(self):
        def body(comm):
            told = comm.estimate("all_reduce", 1024)
            self.assertGreater(told.time_us, 0)
            self.assertTrue(told.algorithm)
            comm.set_timeout(5)
            with comm.register(numpy.ones(1 << 16)) as registered:
                comm.all_reduce(registered.array)
                self.assertEqual(registered.array[0], 2)
            return repr(comm)
        self.assertEqual(good(ranks(2, body, timeout=20, transports="self,shm", name="mine", wait="block"))[1],
                         "<tutti.Communicator rank 1 of 2>")
        with self.assertRaisesRegex(TypeError, "no option 'colour'.*timeout"):
            tutti.Communicator.init(1, 0, tutti.get_unique_id(), colour=1)
        with self.assertRaisesRegex(tutti.InvalidArgument, "wait='nap'.*block"):
            tutti.Communicator.init(1, 0, tutti.get_unique_id(), wait="nap")
        with self.assertRaisesRegex(tutti.InvalidArgument, "more than 0"):
            tutti.Communicator.init(1, 0, tutti.get_unique_id(), timeout=-1)
        with self.assertRaisesRegex(tutti.InvalidUsage, "pigeon"):
            tutti.Communicator.init(1, 0, tutti.get_unique_id(), transports="pigeon")
        with self.assertRaisesRegex(tutti.InvalidArgument, "128 bytes, not 3"):
            tutti.UniqueId(b"abc")


def _outcome(body, comm):
    try:
        return body(comm)
    except BaseException as error:  # noqa: BLE001
        return error


class Refused(unittest.TestCase):
    def test_arrays_that_do_not_fit(self):
        one, two, three = (numpy.zeros(n, "f4") for n in (1, 2, 3))
        f8 = numpy.zeros(2)

        def body(comm):
            for call, says in ((lambda: comm.all_reduce(two, three), "sends 2 elements.*has to have 2, but has 3"),
                               (lambda: comm.all_reduce(two, f8), "sends float32 and receives float64"),
                               (lambda: comm.all_gather(two, three), "has to have 4, but has 3"),
                               (lambda: comm.all_gather(two, None), "no receive array.*in place"),
                               (lambda: comm.reduce_scatter(three, one), "3 elements in its send array.*no multiple of 2"),
                               (lambda: comm.reduce_scatter(None, one), "no send array.*in place"),
                               (lambda: comm.all_to_all(three), "no multiple of 2 ranks"),
                               (lambda: comm.all_gather(None, three), "3 elements in its receive array.*no multiple of 2"),
                               (lambda: comm.all_reduce(None), "neither a send nor a receive array"),
                               (lambda: comm.broadcast(two, 5), "root 5 is not a rank"),
                               (lambda: comm.all_reduce(two, op=77), "op 77"),
                               (lambda: comm.all_reduce(numpy.zeros(2), op=tutti.BXOR), "not defined on dtype double"),
                               (lambda: comm.all_reduce([1, 2]), "is not an array"),
                               (lambda: comm.all_gather_v(two, three, [1]), "1 counts and 1 displacements for 2 ranks"),
                               (lambda: comm.all_gather_v(two, three, [2, 2]), "reach to element 4 of an array of 3"),
                               (lambda: comm.all_gather_v(two, three, [1, -1]), "not negative"),
                               (lambda: comm.all_gather_v(two, three, [1, 1]), r"recvcounts\[.\] is 1.*has 2 elements"),
                               (lambda: comm.all_reduce(two, stream="fast"), "'fast' is not a stream"),
                               (lambda: comm.send(two, 9), "peer 9 is not a rank")):
                with self.assertRaisesRegex(tutti.InvalidArgument, says):
                    call()
            comm.all_reduce(two)  # as good as before
        good(ranks(2, body))

    def test_what_is_destroyed(self):
        comm = tutti.Communicator.init_all(1)[0]
        op, stream = comm.create_op(lambda a, b: a + b), tutti.Stream()
        comm.destroy()
        comm.destroy()
        stream.destroy()
        x = numpy.zeros(2)
        for call in (lambda: comm.all_reduce(x), lambda: comm.barrier(), lambda: comm.split(0), lambda: comm.send(x, 0),
                     lambda: comm.all_gather_v(x, x, [2]), lambda: comm.all_reduce(x, stream=stream),
                     lambda: comm.create_op(print), lambda: comm.register(x), lambda: comm.async_error()):
            with self.assertRaisesRegex(tutti.InvalidArgument, "Communicator is destroyed"):
                call()
        with self.assertRaisesRegex(tutti.InvalidArgument, "Stream is destroyed"):
            stream.synchronize()
        other = tutti.Communicator.init_all(1)[0]
        with self.assertRaisesRegex(tutti.InvalidArgument, "op .* neither built in nor made"):
            other.all_reduce(x, op=op)
        other.destroy()

    def test_ranks_that_differ(self):
        def body(comm):
            comm.all_reduce(numpy.zeros(2 + comm.rank))
        for result in ranks(2, body):
            self.assertIsInstance(result, tutti.InvalidUsage)
            self.assertRegex(str(result), r"count")

    def test_a_silent_rank_and_one_that_aborts(self):
        for leave, kind in ((lambda comm: threading.Event().wait(1.5), tutti.Timeout), (lambda comm: comm.abort(), tutti.RemoteError)):
            def body(comm, leave=leave):
                if comm.rank == 1:
                    return leave(comm)
                try:
                    comm.all_reduce(numpy.zeros(2))
                except tutti.TuttiError as error:
                    self.assertIn("rank 1", str(error))
                    self.assertIsInstance(comm.async_error(), type(error))
                    raise
            result = ranks(2, body, timeout=0.5)[0]
            self.assertIsInstance(result, kind, result)


if __name__ == "__main__":
    unittest.main()
