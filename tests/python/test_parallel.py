"""The training layers from Python against what numpy computes on one rank."""
import tempfile
import unittest

import numpy as np
import tutti
from support import good, ranks
from tutti import parallel


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


class Grids(unittest.TestCase):
    def test_groups_along_axes(self):
        def body(world):
            with parallel.Grid(world, "tp=2,dp=0") as grid:
                x = np.array([world.rank])
                grid.group("tp").all_reduce(x)
                self.assertEqual(x[0], 1 if world.rank < 2 else 5)
                self.assertEqual(grid.size("dp"), 2)
                self.assertEqual(grid.members("dp"), [world.rank % 2, world.rank % 2 + 2])
                self.assertEqual(grid.rank_at("tp=1,dp=1"), 3)
                self.assertEqual(grid.coordinate("dp", 2), 1)
                with grid.view("ep=4") as other:
                    self.assertEqual(other.group("ep").size, 4)
                with self.assertRaisesRegex(tutti.InvalidArgument, "pp"):
                    grid.size("pp")
            with self.assertRaisesRegex(tutti.InvalidArgument, "Grid is destroyed"):
                grid.size("tp")
        good(ranks(4, body))

    def test_axes_that_do_not_fit(self):
        def body(world):
            with self.assertRaises(tutti.InvalidArgument):
                parallel.Grid(world, "tp=3")
        good(ranks(2, body))


class DataParallel(unittest.TestCase):
    N, STEPS, RATE = 3, 4, 0.1

    def expected(self):
        x, y, w, b = normal(6, 4, seed=1), normal(6, 3, seed=2), normal(4, 3, seed=3), normal(3, seed=4)
        for _ in range(self.STEPS):
            error = x @ w + b - y
            w = w - self.RATE * x.T @ error / 6
            b = b - self.RATE * error.sum(0) / 6
        return w, b

    def test_zero_in_every_stage(self):
        def body(comm, stage):
            x, y = normal(6, 4, seed=1), normal(6, 3, seed=2)
            rows = slice(2 * comm.rank, 2 * comm.rank + 2)
            with parallel.Zero(comm, {"w": normal(4, 3, seed=3), "b": normal(3, seed=4)}, units=[0, 1], stage=stage,
                               optimizer=parallel.optimizer("sgd", learning_rate=self.RATE, weight_decay=0.0)) as zero:
                for _ in range(self.STEPS):
                    zero.begin()
                    for unit in (0, 1):
                        zero.unshard(unit)
                    error = x[rows] @ zero.value("w") + zero.value("b") - y[rows]
                    zero.reshard(0, True)
                    zero.reshard(1, True)
                    for unit, name, gradient in ((1, "b", error.sum(0) / 2), (0, "w", x[rows].T @ error / 2)):
                        zero.unshard(unit)
                        zero.gradient(name)[...] += gradient
                        zero.ready(name)
                        zero.reshard(unit, False)
                    norm = zero.step(norm=True)
                self.assertGreater(norm, 0)
                for unit in (0, 1):
                    zero.unshard(unit)
                result = zero.value("w").copy(), zero.value("b").copy()
                begin, end, owned = zero.owned("w")
                np.testing.assert_array_equal(owned, result[0].ravel()[begin:end])
                self.assertGreater(zero.report().bytes_now, 0)
                self.assertGreater(zero.report().traffic.wire_bytes, 0)
                return result
        for stage in range(4):
            for w, b in good(ranks(self.N, lambda comm, stage=stage: body(comm, stage))):
                np.testing.assert_allclose(w, self.expected()[0], rtol=1e-4, atol=1e-6)
                np.testing.assert_allclose(b, self.expected()[1], rtol=1e-4, atol=1e-6)

    def test_ddp(self):
        def body(comm):
            values = {"w": normal(4, 3, seed=3), "b": normal(3, seed=4)}
            x, y = normal(6, 4, seed=1), normal(6, 3, seed=2)
            rows = slice(2 * comm.rank, 2 * comm.rank + 2)
            sgd = parallel.optimizer("sgd", learning_rate=self.RATE, weight_decay=0.0)
            with parallel.Ddp(comm, values) as ddp:
                for step in range(1, self.STEPS + 1):
                    ddp.begin()
                    error = x[rows] @ values["w"] + values["b"] - y[rows]
                    ddp.gradient("b")[...] += error.sum(0) / 2
                    ddp.ready("b")
                    ddp.gradient("w")[...] += x[rows].T @ error / 2
                    ddp.ready("w")
                    ddp.finish()
                    for name in values:
                        parallel.optimizer_update(sgd, step, values[name], ddp.gradient(name))
                self.assertEqual(ddp.report().steps, self.STEPS)
            return values
        for values in good(ranks(self.N, body)):
            np.testing.assert_allclose(values["w"], self.expected()[0], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(values["b"], self.expected()[1], rtol=1e-4, atol=1e-6)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(TypeError, "no field stages; it has stage, "):
            parallel.Zero(None, {"w": normal(3)}, stages=2)
        with self.assertRaisesRegex(tutti.InvalidArgument, "'adam': it is one of sgd"):
            parallel.optimizer("adam")
        with self.assertRaisesRegex(tutti.InvalidArgument, "5 dimensions"):
            parallel.Zero(None, {"w": normal(1, 1, 1, 1, 2)})

        def body(comm):
            with self.assertRaisesRegex(tutti.InvalidUsage, "rank 1"):
                parallel.Zero(comm, {"w": normal(3 + comm.rank)})
        good(ranks(2, body))


class Model(unittest.TestCase):
    def test_linear_layers_by_columns_and_rows(self):
        x, w1, w2, dy = normal(5, 4), normal(6, 4, seed=1), normal(3, 6, seed=2), normal(5, 3, seed=3)
        y, dx = x @ w1.T @ w2.T, dy @ w2 @ w1

        def body(comm):
            with parallel.Tp(comm) as tp, tp.column_linear(4, 6) as first, tp.row_linear(6, 3) as second:
                a, b = first.cuts()[comm.rank:comm.rank + 2]
                here1, here2 = w1[a:b].copy(), w2[:, a:b].copy()
                hidden, out = np.zeros((5, b - a), "f4"), np.zeros((5, 3), "f4")
                first.forward(5, x, here1, hidden)
                second.forward(5, hidden, here2, out)
                np.testing.assert_allclose(out, y, rtol=1e-4, atol=1e-5)
                dhidden, dinput, dw = np.zeros((5, b - a), "f4"), np.zeros((5, 4), "f4"), np.zeros_like(here2)
                second.backward(5, hidden, here2, dy, dhidden, dw)
                first.backward(5, x, here1, dhidden, dinput)
                np.testing.assert_allclose(dinput, dx, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(dw, (dy.T @ (x @ w1.T))[:, a:b], rtol=1e-4, atol=1e-5)
                self.assertGreater(tp.traffic().bytes["all_reduce"], 0)
        good(ranks(2, body))

    def test_a_vocabulary_that_is_cut(self):
        table, ids, logits = normal(7, 4), np.array([0, 6, 3, 3], "i4"), normal(4, 7, seed=5)
        loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(4), ids]

        def body(comm):
            with parallel.Tp(comm) as tp:
                cuts = tp.split(7)
                here = slice(cuts[comm.rank], cuts[comm.rank + 1])
                out, got = np.zeros((4, 4), "f4"), np.zeros(4, "f4")
                tp.embedding(cuts, ids, table[here].copy(), out)
                np.testing.assert_array_equal(out, table[ids])
                tp.cross_entropy(cuts, logits[:, here].copy(), ids, got)
                np.testing.assert_allclose(got, loss, rtol=1e-5)
                with self.assertRaisesRegex(tutti.InvalidArgument, "int64, and has to be of int32"):
                    tp.embedding(cuts, ids.astype("i8"), table[here].copy(), out)
        good(ranks(3, body))

    def test_attention_over_cut_sequences(self):
        q, k, v = (normal(6, 8, seed=s) for s in range(3))  # two heads of 4

        def whole():
            out = np.zeros_like(q)
            for h in (slice(0, 4), slice(4, 8)):
                scores = q[:, h] @ k[:, h].T / 2
                scores[np.triu_indices(6, 1)] = -np.inf
                p = np.exp(scores - scores.max(1, keepdims=True))
                out[:, h] = p / p.sum(1, keepdims=True) @ v[:, h]
            return out

        def body(comm, axis):
            with parallel.Sp(6, 2, 4, causal=1, **{axis: comm}) as sp:
                mine = sp.tokens()
                out, saved = np.zeros((len(mine), 8), "f4"), np.zeros(sp.saved(), "f4")
                sp.forward(q[mine], k[mine], v[mine], out, saved)
                np.testing.assert_allclose(out, whole()[mine], rtol=1e-4, atol=1e-5)
                grads = [np.zeros_like(out) for _ in range(3)]
                sp.backward(saved, out, *grads)
                self.assertTrue(all(g.any() for g in grads))
        for axis in ("ulysses", "ring"):
            good(ranks(2, lambda comm, axis=axis: body(comm, axis)))

    def test_experts_get_their_tokens_and_give_them_back(self):
        def body(comm):
            tokens = 3 + comm.rank
            x, ids = normal(tokens, 5, seed=comm.rank), np.arange(tokens, dtype="i4").reshape(-1, 1) % 4
            with parallel.Ep(comm, 4) as ep:
                received, each = ep.route(ids)
                self.assertEqual((sum(each), len(each)), (received, 2))
                y, out, kept = np.zeros((received, 5), "f4"), np.zeros_like(x), np.zeros(tokens * 5, "f4")
                ep.dispatch(x, y)
                at = 0
                for expert, rows in enumerate(each, 2 * comm.rank):  # expert e multiplies by e + 1
                    y[at:at + rows] *= expert + 1
                    at += rows
                ep.combine(y, np.ones((tokens, 1), "f4"), out, kept)
                np.testing.assert_allclose(out, x * (ids + 1), rtol=1e-6)
                self.assertEqual(ep.dropped(), 0)
                self.assertAlmostEqual(ep.balance_loss(np.full((tokens, 4), 0.25, "f4"), 1.0), 1.0, 5)
        good(ranks(2, body))


class Chain:
    """Stage s multiplies by weight[s]; the last one's loss is the sum of what it gives."""

    def __init__(self, schedule, micros):
        self.last = schedule.shape()[1] - 1
        self.inputs, self.sums, self.micros = {}, {}, micros

    def forward(self, stage, micro, x, out):
        x = self.micros[micro] if x is None else x
        self.inputs[stage, micro] = x.copy()
        y = x * (stage + 2)
        if out is None:
            self.sums[micro] = float(y.sum())
        else:
            out[...] = y

    def backward(self, stage, micro, dout, dx, weights):
        self.gradient = np.ones((2, 3), "f4") if dout is None else dout.copy()
        if dx is not None:
            dx[...] = self.gradient * (stage + 2)
        if weights:
            self.backward_weight(stage, micro)

    def backward_weight(self, stage, micro):
        self.inputs.pop((stage, micro))


class Pipelines(unittest.TestCase):
    def test_schedules_are_data(self):
        with parallel.Schedule("1f1b", 4, 8) as schedule:
            self.assertEqual(schedule.shape(), (4, 4, 8))
            self.assertEqual(schedule.validate(), "")
            told = schedule.simulate()
            self.assertAlmostEqual(told.bubble_over_ideal, 3 / 8)
            self.assertEqual(told.peak_in_flight, 4)
            self.assertEqual(schedule.actions(3)[1][:2], ("forward", 3))
            with parallel.Schedule.parse(schedule.csv()) as same:
                self.assertEqual(same.actions(2), schedule.actions(2))
        with self.assertRaisesRegex(tutti.InvalidArgument, "2f2b"):
            parallel.Schedule("2f2b", 2, 2)
        self.assertEqual(parallel.balance_stages([1, 1, 1, 3], 2), [0, 3, 4])

    def test_micro_batches_flow(self):
        micros = [np.full((2, 3), m + 1, "f4") for m in range(4)]

        def body(comm, name, chunks):
            with parallel.Schedule(name, comm.size, 4, chunks) as schedule:
                stages = Chain(schedule, micros)
                with parallel.Pipeline(comm, schedule, (2, 3), stages) as pipeline:
                    for _ in range(2):
                        pipeline.step()
                    counted, expected = pipeline.traffic()
                    self.assertEqual(counted.wire_bytes, 2 * expected.wire_bytes)
                self.assertFalse(stages.inputs)
                return stages.sums
        for name, chunks in (("1f1b", 1), ("interleaved", 2), ("zb-h1", 1), ("zbv", 1)):
            results = good(ranks(2, lambda comm, name=name, chunks=chunks: body(comm, name, chunks)))
            factor = np.prod([s + 2 for s in range(4 if name in ("interleaved", "zbv") else 2)])
            self.assertEqual({m: v for sums in results for m, v in sums.items()},
                             {m: 6 * (m + 1) * factor for m in range(4)}, name)

    def test_what_a_stage_raises_is_raised(self):
        class Broken(Chain):
            def forward(self, stage, micro, x, out):
                if stage == 1:
                    raise ZeroDivisionError("mine")
                super().forward(stage, micro, x, out)

        def body(comm):
            with parallel.Schedule("1f1b", 2, 2) as schedule:
                pipeline = parallel.Pipeline(comm, schedule, (2, 3), Broken(schedule, [np.ones((2, 3), "f4")] * 2))
                try:
                    pipeline.step()
                finally:
                    pipeline.destroy()
        first, second = ranks(2, body, timeout=2)
        self.assertIsInstance(second, ZeroDivisionError)
        self.assertIsInstance(first, tutti.TuttiError)


class States(unittest.TestCase):
    def test_checkpoints_load_at_another_rank_count(self):
        w, b = normal(6, 4), np.arange(5.0)
        with tempfile.TemporaryDirectory() as folder:
            def save(comm):
                a, z = 2 * comm.rank, 2 * comm.rank + 2
                parallel.save_checkpoint(comm, folder, 7, [parallel.piece("w", w[a:z].copy(), w.shape, rows=(a, z)),
                                                           *([parallel.piece("b", b)] if comm.rank == 1 else [])])

            def load(comm):
                a, z = 3 * comm.rank, 3 * comm.rank + 3
                part, whole = np.zeros((3, 4), "f4"), np.zeros(5)
                step = parallel.load_checkpoint(comm, folder, [parallel.piece("w", part, w.shape, rows=(a, z)),
                                                               parallel.piece("b", whole)])
                self.assertEqual(step, 7)
                np.testing.assert_array_equal(part, w[a:z])
                np.testing.assert_array_equal(whole, b)
                with self.assertRaisesRegex(tutti.SystemFailure, "step"):
                    parallel.load_checkpoint(comm, folder, {"b": whole}, step=8)
            good(ranks(3, save))
            good(ranks(2, load))

    def test_pieces_move_without_a_file(self):
        w = normal(4, 4)

        def body(comm):
            rows, columns = (2 * comm.rank, 2 * comm.rank + 2), (2 * comm.rank, 2 * comm.rank + 2)
            got = np.zeros((4, 2), "f4")
            moved = parallel.reshard(comm, [parallel.piece("w", w[slice(*rows)].copy(), w.shape, rows=rows)],
                                     [parallel.piece("w", got, w.shape, columns=columns)])
            np.testing.assert_array_equal(got, w[:, slice(*columns)])
            self.assertEqual(moved, 16)
            parallel.check_replicas(comm, {"w": w})
            with self.assertRaisesRegex(tutti.InvalidUsage, "w"):
                parallel.check_replicas(comm, {"w": w + comm.rank})
            with parallel.Mirror(comm, {"w": got}) as mirror:
                mirror.update(3)
                again = np.zeros((4, 2), "f4")
                self.assertEqual(mirror.restore(comm, {"w": again}), 3)
        good(ranks(2, body))
        with self.assertRaisesRegex(tutti.InvalidArgument, "has 3 elements, but stands for 4"):
            parallel.piece("w", np.zeros(3), (4,))

    def test_the_planner(self):
        model = {"layers": 32, "hidden": 4096, "heads": 32, "sequence": 4096, "vocabulary": 32000}
        cost = parallel.layout_cost(model, tp=2, pp=2, dp=4, zero=1)
        self.assertGreater(cost.values, parallel.layout_cost(model, tp=4, pp=2, dp=2, zero=1).values)
        plans = parallel.search_layouts(model, 64, most=5, ranks=16, flops=3e14, memory=80e9)
        self.assertEqual([p.step_ms for p in plans], sorted(p.step_ms for p in plans))
        self.assertTrue(all(p.layout.tp * p.layout.pp * p.layout.dp * p.layout.cp * p.layout.ep == 16 and p.fits for p in plans))
        plan = parallel.plan_layout(model, 64, {"tp": 2, "pp": 2, "dp": 4, "zero": 1}, ranks=16, gpu=2, memory=80e9)
        self.assertTrue(plan.fits and "computation" in plan.why)
        with self.assertRaisesRegex(tutti.InvalidArgument, "are 8 ranks, the machine has 16"):
            parallel.plan_layout(model, 64, {"tp": 2, "dp": 4}, ranks=16)
        self.assertGreater(parallel.matmul_rate("b200", 4096, 4096, 4096), parallel.matmul_rate("h100", 4096, 4096, 4096))
        with self.assertRaisesRegex(tutti.InvalidArgument, "products are known of"):
            parallel.matmul_rate("x", 64, 64, 64)
        self.assertAlmostEqual(parallel.training_days(7e9, 2e12, 1024, 1.5e14), 6 * 7e9 * 2e12 / (1024 * 1.5e14) / 86400, 3)
        self.assertEqual(parallel.split_even(10, 3), [0, 4, 7, 10])
        self.assertEqual(parallel.split_even(10, 2, weights=[4, 1]), [0, 8, 10])


if __name__ == "__main__":
    unittest.main()
