"""perf/compare, perf/limits and perf/profile on canned data: statistics, ratios, tables, plot, parsing, the settings table.
Usage: FILE TOP_OF_THE_TREE"""
import importlib.machinery
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
import types
import unittest
import xml.etree.ElementTree
from contextlib import redirect_stderr

TOP = os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(TOP, "perf", "compare"), os.path.join(TOP, "perf", "limits")]
import bounds  # noqa: E402
import congestion  # noqa: E402
import group  # noqa: E402
import hogs  # noqa: E402
import measure  # noqa: E402
import placement  # noqa: E402
import plot  # noqa: E402
import results  # noqa: E402
import settings  # noqa: E402


def script(folder, name):
    loader = importlib.machinery.SourceFileLoader(name + "_script", os.path.join(TOP, "perf", folder, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def cell(op="allreduce", size=1024, ranks=4, transport="shm", **times):
    """times: setting = list of undisturbed microseconds; an underscore stands for a plus or minus sign."""
    c = results.Cell(op, "float", size, ranks, transport)
    for name, us in times.items():
        name = {"tutti_reg": "tutti+reg", "openmpi_ucx": "openmpi-ucx"}.get(name, name)
        c.add(name, name.split("+")[0].split("-")[0], [(t, 0.0) for t in us])
    return c


class Profile(unittest.TestCase):
    """perf/profile: what a symbol counts as."""

    def test_symbols(self):
        profile = script("profile", "profile")
        for symbol, name in [("_copy_to_iter", "kernel: copies"), ("follow_page_pte", "kernel: pages"),
                             ("finish_task_switch.isra.0", "kernel: giving the core"),
                             ("do_sched_yield", "kernel: giving the core"), ("tcp_sendmsg_locked", "kernel: TCP"),
                             ("__skb_datagram_iter", "kernel: TCP"), ("do_syscall_64", "kernel: entry")]:
            self.assertTrue(profile.class_of("[kernel.kallsyms]", symbol).startswith(name), symbol)
        library = "libtutti.so.0.1.0"
        self.assertEqual(profile.class_of("libc.so.6", "__memmove_avx512_unaligned_erms"), "program: copies")
        self.assertEqual(profile.class_of(library, "tutti::(anonymous namespace)::streamAvx512"), "program: copies")
        self.assertEqual(profile.class_of(library, "tutti::N_AVX3::reduceLoop<Lane, Add>"), "program: reductions")
        self.assertTrue(profile.class_of(library, "tutti::drive").startswith("Tutti"))
        self.assertEqual(profile.class_of("libm.so.6", "exp"), "all else")

    def test_what_is_no_cell(self):
        for cell in ("allreduce", "allreduce:4M:2:rdma", "nothing:4M:2:shm", "allreduce:4M:two:shm"):
            with self.assertRaises(SystemExit) as refused, open(os.devnull, "w") as quiet, redirect_stderr(quiet):
                script("profile", "profile").arguments([cell])
            self.assertEqual(refused.exception.code, 2)


class Statistics(unittest.TestCase):
    def test_the_best_of_a_peers_settings_counts_by_median(self):
        c = cell(tutti=[10, 10, 10], openmpi=[4, 9, 9], openmpi_ucx=[8, 8, 8], mpich=[20, 20, 20])
        self.assertEqual(c.best_peer(), "openmpi-ucx")
        self.assertAlmostEqual(c.ratio("tutti"), 0.8)
        self.assertEqual(c.best_peer(results.Cell.best), "openmpi")
        self.assertAlmostEqual(c.ratio("tutti", results.Cell.best), 0.4)

    def test_above_one_means_that_tutti_is_faster(self):
        c = cell(tutti=[5, 5, 5], tutti_reg=[2, 2, 2], ucc=[10, 10, 10])
        self.assertAlmostEqual(c.ratio("tutti"), 2)
        self.assertAlmostEqual(c.ratio("tutti+reg"), 5)

    def test_ratios_are_those_within_rounds(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        for number, mood in enumerate((1, 10, 1)):  # the machine is ten times as slow in the second round
            c.add("ucc", "ucc", [(3 * mood, 0)], number)
            if number > 0:  # Tutti's first turn was disturbed
                c.add("tutti", "tutti", [(2 * mood, 0)], number)
        c.add("tutti", "tutti", [(500, 0.9)], 0)
        self.assertAlmostEqual(c.ratio("tutti"), 1.5)
        self.assertEqual(c.median("ucc"), 3)
        self.assertNotAlmostEqual(c.median("ucc") / c.median("tutti"), 1.5)

    def test_ratios_are_those_of_blocks_with_the_cores_as_near(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        near, far, moved = 0.05, 0.2, 0
        c.add("tutti", "tutti", [(2, 0, near), (20, 0, far), (500, 0, moved)], 0)
        c.add("ucc", "ucc", [(30, 0, far), (31, 0, 1.5 * far)], 0)  # not 3 / 2 of all blocks of the round
        self.assertAlmostEqual(c.ratio("tutti"), 30.5 / 20)
        c.add("ucc", "ucc", [(4, 0, near)], 1)  # with the cores as near as in another round only: these do not count
        self.assertAlmostEqual(c.ratio("tutti"), 30.5 / 20)
        back = results.cell_from_json(json.loads(json.dumps(c.as_json())))
        self.assertEqual(back.as_json(), c.as_json())
        self.assertIn("in 0.05 us (33 %), 0.20 us (50 %), moved within a block (17 %)", results.summary_text([c]))

    def test_where_no_round_has_the_cores_as_near_turns_of_different_rounds_are_compared(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        for number, (line, times) in enumerate(((0.05, 1), (0.2, 10))):
            c.add("tutti", "tutti", [(2 * times, 0, line)], number)
            c.add("ucc", "ucc", [(3 * times, 0, line)], 1 - number)
        self.assertAlmostEqual(c.ratio("tutti"), 1.5)
        c.add("mpich", "mpich", [(4, 0)], 0)  # a library whose ranks are not pinned: by rounds
        self.assertAlmostEqual(c.paired("tutti", "mpich"), 2)

    def test_how_near_cores_are(self):
        self.assertIsNone(placement.over(0.0, 0.2))
        self.assertIsNone(placement.over())
        self.assertAlmostEqual(placement.over(0.1, 0.1), 0.1)
        self.assertEqual(placement.over(0.05, 0.2), 0)
        self.assertFalse(placement.alike(0.2, 0.05))
        self.assertEqual([len(kind) for kind in placement.kinds([0.2, 0.03, 0, 0.05, 0.21])], [2, 2])

    def test_the_best_peer_is_the_best_beside_tutti(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        for number, mood in enumerate((1, 4)):
            c.add("tutti", "tutti", [(2 * mood, 0)], number)
        c.add("ucc", "ucc", [(3, 0)], 0)  # 1.5 times as slow
        c.add("mpich", "mpich", [(6, 0)], 1)  # 0.75
        self.assertEqual(c.best_peer(), "mpich")
        self.assertAlmostEqual(c.ratio("tutti"), 0.75)

    def test_settings_that_share_no_round_are_compared_by_their_medians(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        c.add("tutti", "tutti", [(2, 0)] * 3, 0)
        c.add("ucc", "ucc", [(3, 0)] * 3, 1)
        self.assertAlmostEqual(c.ratio("tutti"), 1.5)

    def test_without_a_peer_or_without_tutti_there_is_no_ratio(self):
        self.assertIsNone(cell(tutti=[1, 1, 1]).ratio("tutti"))
        self.assertIsNone(cell(ucc=[1, 1, 1]).ratio("tutti"))

    def test_disturbed_blocks_do_not_count(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        c.add("tutti", "tutti", [(1, 0), (500, 0.9), (2, 0.01), (3, 0.02), (900, 0.5)])
        self.assertEqual(c.median("tutti"), 2)
        self.assertTrue(c.steady("tutti"))

    def test_with_too_few_undisturbed_blocks_the_least_disturbed_count_and_the_cell_is_marked(self):
        c = results.Cell("allreduce", "float", 8, 2, "shm")
        c.add("tutti", "tutti", [(9, 0.9), (4, 0.2), (3, 0.1), (5, 0.3), (8, 0.8)])
        c.add("ucc", "ucc", [(1, 0), (1, 0), (1, 0)])
        self.assertEqual(c.median("tutti"), 4)
        self.assertEqual(results.noisy(c), ["tutti"])
        self.assertIn("~tutti", results.row_text(c))
        self.assertIn("disturbed", results.summary_text([c]))

    def test_bus_bandwidth_is_that_of_nccl_tests(self):
        for op, ranks, factor in [("allreduce", 4, 1.5), ("allgather", 4, 0.75), ("reducescatter", 8, 0.875),
                                  ("alltoall", 2, 0.5), ("broadcast", 8, 1), ("reduce", 3, 1), ("pingpong", 2, 1)]:
            self.assertAlmostEqual(results.bus_factor(op, ranks), factor, msg=op)
        self.assertAlmostEqual(cell(size=1000, tutti=[1, 1, 1]).busbw("tutti"), 1.5)
        self.assertIsNone(cell(op="barrier", size=0, tutti=[1, 1, 1]).busbw("tutti"))

    def test_geometric_mean(self):
        self.assertAlmostEqual(results.geometric_mean([0.5, 2, None]), 1)
        self.assertIsNone(results.geometric_mean([]))

    def test_json_gives_the_cell_back(self):
        c = cell(tutti=[5, 6, 7], tutti_reg=[1, 2, 3], ucc=[10, 11, 12])
        c.failures["mpich"] = "does not start"
        c.limit_us = 2.5
        back = results.cell_from_json(json.loads(json.dumps(c.as_json())))
        self.assertEqual(back.as_json(), c.as_json())
        self.assertAlmostEqual(c.as_json()["ratio_median"]["tutti"], 11 / 6)
        kept = c.as_json()
        del kept["data"]
        for setting in kept["settings"].values():
            setting["blocks"] = [block[:2] for block in setting["blocks"]]  # as files of before rounds were kept have them
        self.assertEqual(results.cell_from_json(kept).as_json(), c.as_json())


class Text(unittest.TestCase):
    CELLS = [cell(size=8, tutti=[1, 1, 1], ucc=[2, 2, 2]), cell(size=64, tutti=[4, 4, 4], ucc=[1, 1, 1]),
             cell(op="barrier", size=0, tutti=[2, 2, 2], mpich=[1, 1, 1])]

    def test_summary_has_means_and_ends_with_the_worst_cell(self):
        lines = results.summary_text(self.CELLS).splitlines()
        allreduce = next(line for line in lines if line.strip().startswith("allreduce")).split()
        self.assertEqual(allreduce[4:9], ["reused", f"{math.sqrt(0.5):.2f}", "-", "1/2", "0.25"])
        self.assertIn("worst cell: allreduce float, 4 ranks, shm, 64 B: ratio 0.25", lines[-1])

    def test_both_kinds_of_data_have_their_own_totals(self):
        cells = [cell(tutti=[1] * 3, ucc=[2] * 3), cell(tutti=[1] * 3, ucc=[4] * 3)]
        cells[1].data = "fresh"
        text = results.summary_text(cells)
        self.assertRegex(text, "\nreused data: geometric mean 2.00.*\nfresh data: geometric mean 4.00")
        self.assertIn("fresh data", results.compact_text(cells))
        self.assertEqual(results.table_text(cells).count(" data\n"), 2)

    def test_compact_table_has_a_row_per_size_and_a_column_per_collective(self):
        lines = results.compact_text(self.CELLS).splitlines()
        self.assertEqual([line.split()[0] for line in lines[3:]], ["-", "8", "64"])
        self.assertIn("2.00 / -", lines[4])

    def test_table_shows_failures(self):
        c = cell(tutti=[1, 1, 1])
        c.failures["gloo"] = "a rank ended"
        self.assertIn("gloo: a rank ended", results.table_text([c]))

    def test_a_limit_stands_beside_the_times_and_in_the_summary(self):
        c = cell(size=8, tutti=[3, 3, 3], ucc=[8, 8, 8])
        self.assertNotIn("limit", results.table_text([c]))
        c.limit_us = 2
        header, row = results.table_text([c]).splitlines()[-2:]
        self.assertEqual(header.split()[-6:], ["us", "x", "limit", "peer", "x", "peer"])
        self.assertEqual(row.split()[-4:], ["2.00", "1.50", "4.00", "ucc"])
        unknown = cell(size=64, tutti=[3, 3, 3], ucc=[8, 8, 8])
        unknown.limit_us = 0
        self.assertEqual(results.row_text(unknown).split()[-4:], ["0.00", "-", "-", "ucc"])
        self.assertIn("(1 cells, geometric means): Tutti takes 1.50 times as long, the best peers 4.00 times",
                      results.summary_text([c, unknown]))

    def test_sizes(self):
        self.assertEqual([results.parse_size(t) for t in ("8", "64K", "4m", "1G")], [8, 65536, 4 << 20, 1 << 30])
        for wrong in ("", "K", "0", "1.5M", "-8", "8Q"):
            with self.assertRaises(ValueError, msg=wrong):
                results.parse_size(wrong)
        self.assertEqual([results.size_name(s) for s in (8, 1000, 1024, 128 << 20)], ["8 B", "1000 B", "1 KiB", "128 MiB"])


class Plot(unittest.TestCase):
    def test_lines_are_relative_to_tutti_each_library_at_its_best(self):
        lines = plot.lines_of([cell(size=8, tutti=[2] * 3, tutti_reg=[1] * 3, openmpi=[6] * 3, openmpi_ucx=[4] * 3),
                               cell(size=64, tutti=[2] * 3, openmpi=[1] * 3)])
        self.assertEqual(lines["openmpi"], [(8, 2.0), (64, 0.5)])
        self.assertEqual(lines["registered"], [(8, 0.5)])

    def test_it_is_well_formed_with_a_panel_per_collective_and_rank_count(self):
        cells = [cell(op=op, size=size, ranks=ranks, tutti=[1] * 3, ucc=[2] * 3)
                 for op in ("allreduce", "reduce", "alltoall") for ranks in (2, 4) for size in (8, 64, 512)]
        root = xml.etree.ElementTree.fromstring(plot.svg(cells, "a < b & c"))
        lines = [e for e in root.iter() if e.tag.endswith("polyline")]
        self.assertEqual(len(lines), 6)
        for empty in ([], [cell(op="barrier", size=0, tutti=[1] * 3)], [cell(ucc=[1] * 3)]):
            xml.etree.ElementTree.fromstring(plot.svg(empty, ""))


class Blocks(unittest.TestCase):
    def test_the_slowest_rank_counts(self):
        blocks = group.blocks_of(["times 1.5:9:0:9 2:9:0:9", "times 3:9:0:9 1:9:0:9"], 2, 2)
        self.assertEqual([b.us for b in blocks], [3, 2])
        self.assertTrue(all(b.clean for b in blocks))
        self.assertEqual([b.line for b in blocks], [None, None])

    def test_rank_0_says_how_near_the_cores_were(self):
        blocks = group.blocks_of(["times 1:9:0:9:0.2:0.2 1:9:0:9:0.2:0.05 1:9:0:9:0:0"] + ["times" + 3 * " 1:9:0:9:0:0"], 3, 2)
        self.assertEqual([b.line for b in blocks], [0.2, 0, None])

    def test_answers_that_do_not_fit_are_refused(self):
        for answers in (["times 1:1:0:1", "times 1:1:0:1 2:2:0:2"], ["ok", "times 1:1:0:1"]):
            with self.assertRaises(group.GroupError):
                group.blocks_of(answers, 1, 2)

    def test_waiting_for_each_other_is_no_disturbance_but_waiting_for_others_is(self):
        self.assertEqual(group.disturbance([100, 100], [0, 0], 2, 100), 0)
        self.assertAlmostEqual(group.disturbance([80, 100], [20, 0], 2, 100), 0.1)
        self.assertEqual(group.disturbance([50] * 4, [50] * 4, 2, 100), 0)  # two ranks take turns on each cpu
        self.assertAlmostEqual(group.disturbance([25] * 4, [75] * 4, 2, 100), 0.5)  # half of each cpu is taken away
        self.assertEqual(group.disturbance([0], [0], 1, 0), 0)

    def test_every_pass_visits_all_settings_and_tutti_stands_between_the_peers(self):
        chosen = settings.settings_for("shm", set(settings.FAMILIES), 2)
        for number in range(5):
            self.assertEqual(sorted(s.name for s in measure.order_of(chosen, number)), sorted(s.name for s in chosen))
        names = [s.family == "tutti" for s in measure.order_of(chosen, 0)]
        self.assertNotEqual(names[:2], [True, True])

    def test_calls_and_blocks_stay_in_bounds(self):
        self.assertEqual(measure.calls_for(8000, 1e9), 1)
        self.assertEqual(measure.calls_for(8000, 0), measure.MOST_CALLS)
        self.assertEqual((measure.blocks_for(40000, 8000), measure.blocks_for(1, 1e6)), (5, 2))


    def test_calls_before_the_first_turn_are_not_timed(self):
        asked = []

        class Group:
            def cell(self, *_):
                return True

            def time(self, calls, blocks, data):
                asked.append(calls * blocks)
                return [types.SimpleNamespace(us=1000.0, clean=True, disturbance=0.0)] * blocks

        cold = measure.turn(Group(), "allreduce", "float", 8, "plain", 8000, None)
        few = sum(asked)
        asked.clear()
        warm = measure.turn(Group(), "allreduce", "float", 8, "plain", 8000, None, warm_us=300e3)
        self.assertEqual(len(warm), len(cold))
        self.assertTrue(300 <= sum(asked) - few <= 310)


RANK = """import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["COMPARE_CONTROL"])
mode, rank = os.environ["MODE"], os.environ["COMPARE_RANK"]
lines = s.makefile("rw")
def say(text):
    lines.write(text + "\\n")
    lines.flush()
if mode == "refuses":
    sys.exit("cannot start")
say("gather " + rank.encode().hex() + ".")
assert lines.readline().split()[1:] == [str(r).encode().hex() + "." for r in range(3)]
say(f"hello {rank} 3 Library 1.0")
for line in lines:
    word = line.split()[0]
    if word == "quit":
        break
    if rank == "1" and mode == "dies":
        sys.exit("I died")
    if rank == "1" and mode == "silent":
        time.sleep(60)
    if rank == "1" and mode == "fails":
        say("error out of luck")
        sys.exit(1)
    if rank == "2" and mode == "wrong" and word == "time":
        say("wrong element 5")
    elif word == "time":
        us = 1 + int(rank) + (100 if line.split()[3] == "fresh" else 0)
        say("times" + f" {us}:10:0:10" * int(line.split()[2]))
    else:
        say("unsupported" if mode == "unsupported" else "ok 16")
"""


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.program = os.path.join(self.folder.name, "rank")
        with open(self.program, "w") as f:
            f.write(f"#!{sys.executable}\n{RANK}")
        os.chmod(self.program, 0o700)

    def tearDown(self):
        self.folder.cleanup()

    def start(self, mode, timeout=30, hogs=0):
        self.group = group.Group("lib", 3, self.program, dict(os.environ, MODE=mode), timeout=timeout, cpus=3, hogs=hogs)
        self.addCleanup(self.group.stop)
        return self.group

    def test_ranks_answer_in_their_order_and_end_when_told(self):
        g = self.start("ok")
        self.assertEqual(g.library, "Library 1.0")
        self.assertTrue(g.cell("allreduce", "float", 8, "plain"))
        self.assertEqual([b.us for b in g.time(7, 2)], [3, 3])
        self.assertEqual([b.us for b in g.time(7, 1, "fresh")], [103])
        process = g.process
        g.quit()
        self.assertEqual(process.returncode, 0)

    def test_what_a_library_cannot_do_is_no_error(self):
        self.assertFalse(self.start("unsupported").cell("allreduce", "bfloat16", 8, "plain"))

    def ends(self, processes):
        """Whether nothing is left of a process group.  Who was killed is there until its parent has asked for it, which
        for those whose parent has ended, too, is init."""
        for _ in range(3000):
            try:
                os.killpg(processes, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.01)
        return False

    def test_every_way_to_fail_names_the_library_and_the_reason_and_leaves_no_process(self):
        for mode, timeout, reason in [("wrong", 30, "WRONG RESULT.*element 5"), ("dies", 30, "rank ended.*I died"),
                                      ("fails", 30, "out of luck"), ("silent", 1, "no answer within 1 s")]:
            with self.subTest(mode):
                g = self.start(mode)
                g.timeout = timeout  # of answers: a busy machine may take longer to start
                process = g.process
                with self.assertRaisesRegex(group.GroupError, "lib.*" + reason):
                    g.cell("allreduce", "float", 8, "plain")
                    g.time(1, 1)
                group.Group.GRACE, kept = 0.1, group.Group.GRACE
                g.stop()
                group.Group.GRACE = kept
                self.assertIsNotNone(process.returncode)
                self.assertTrue(self.ends(process.pid))

    def state_of(self, pid):
        """(state, session) of a process, or None."""
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return None
        return fields[0], int(fields[3])

    def reaches(self, pid, states):
        for _ in range(3000):
            if (self.state_of(pid) or ("gone",))[0] in states:
                return True
            time.sleep(0.01)
        return False

    def test_hogs_of_the_session_compute_beside_a_turn_only_and_end_with_the_ranks(self):
        g = self.start("ok", hogs=2)
        with open(g._hogs_file()) as f:
            pids = [int(word) for word in f.read().split()]
        self.assertEqual(len(pids), 2)
        for pid in pids:
            self.assertTrue(self.reaches(pid, "T"))
            self.assertEqual(self.state_of(pid)[1], g.process.pid)
        with g.beside():
            self.assertTrue(all(self.reaches(pid, "R") for pid in pids))
            self.assertEqual([b.us for b in g.time(1, 1)], [3])
        self.assertTrue(all(self.reaches(pid, "T") for pid in pids))
        process = g.process
        g.quit()
        self.assertEqual(process.returncode, 0)
        self.assertTrue(self.ends(process.pid))

    def test_hogs_beside_a_program_are_in_the_session_that_is_asked_for_and_end_with_it(self):
        def mine():
            """Busy loops of this process."""
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                return [int(pid) for pid in f.read().split()]
        before = mine()
        for kind, loops in (("same-session", 2), ("own-session", 0)):
            with hogs.beside(2, kind):
                new = [pid for pid in mine() if pid not in before]
                self.assertEqual(sum(os.getsid(pid) == os.getsid(0) for pid in new), loops)
            self.assertEqual(mine(), before)

    def test_hogs_of_another_session_compute_as_long_as_they_are_wanted(self):
        def programs(session):
            """What the processes of a session run, in order of name."""
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if (self.state_of(pid) or ("gone", 0))[1] != session:
                    continue
                try:
                    with open(f"/proc/{pid}/cmdline") as f:
                        words = f.read().split("\0")
                except OSError:
                    continue
                found.append("hogs" if any(word.endswith("hogs.py") for word in words) else words[0])
            return sorted(found)
        # A process that has been forked and runs nothing of its own yet looks like its parent, so the whole session counts.
        whole = ["cat", "hogs", "hogs", "hogs"]  # what the keeper waits for, the keeper and its two loops
        with hogs.computing(2) as keeper:
            for _ in range(3000):
                if programs(keeper) == whole:
                    break
                time.sleep(0.01)
            self.assertEqual(programs(keeper), whole)
            self.assertNotEqual(keeper, os.getsid(0))
        self.assertEqual(programs(keeper), [])

    def test_ranks_that_do_not_start_are_an_error(self):
        with self.assertRaisesRegex(group.GroupError, "cannot start"):
            self.start("refuses")


class Settings(unittest.TestCase):
    def test_every_setting_says_why_and_has_a_name_of_its_own(self):
        for transport in ("shm", "tcp"):
            names = [s.name for s in settings.TABLE if s.transport == transport]
            self.assertEqual(len(names), len(set(names)))
        for s in settings.TABLE:
            self.assertGreater(len(s.why), 10, s.name)
            self.assertIn(s.family, settings.FAMILIES)

    def test_open_mpi_is_told_to_yield_only_when_oversubscribed_and_by_the_name_of_its_version(self):
        s = next(s for s in settings.TABLE if s.name == "openmpi")
        quiet = settings.launch_line(s, 2, "p", {"openmpi": ("mpirun", 4, "")}, False)
        crowded = settings.launch_line(s, 4, "p", {"openmpi": ("mpirun", 5, "")}, True)
        self.assertIn("vader,self", quiet)
        self.assertNotIn("--oversubscribe", quiet)
        self.assertIn("sm,self", crowded)
        self.assertIn("--oversubscribe", crowded)

    def test_gloo_is_never_pinned(self):
        s = next(s for s in settings.TABLE if s.name == "gloo")
        self.assertEqual(settings.environment_for(s, 2, [0, 1], False)["COMPARE_CPUS"], "")

    def test_peers_sockets_get_the_control_that_tuttis_have(self):
        for s in settings.TABLE:
            environment = settings.environment_for(s, 2, [], False)
            has = s.transport == "tcp" and s.family != "tutti"
            self.assertEqual(environment.get("COMPARE_CONGESTION"), congestion.of_tutti() if has else None, s.name)
        self.assertFalse(congestion.of_tutti().startswith("bbr"))

    def test_hogs(self):
        compare = script("compare", "compare")
        for words, count, kind in (([], 0, "own-session"), (["--hogs", "2"], 2, "own-session"),
                                   (["--hogs", "3", "same-session"], 3, "same-session")):
            a = compare.arguments(words)
            self.assertEqual((a.hogs, a.hogs_kind), (count, kind))

    def test_command_line(self):
        compare = script("compare", "compare")
        a = compare.arguments(["--ops", "allreduce,reduce", "--sizes", "8..64K", "--ranks", "2,4", "--type", "float"])
        self.assertEqual(a.sizes, [8, 64, 512, 4096, 32768])
        cells = list(compare.cells_of(a, 4))
        self.assertEqual(len(cells), 20)
        self.assertEqual(cells[0], ("allreduce", "float", 8, "reused"))
        fresh = list(compare.cells_of(compare.arguments(["--fresh", "--ops", "allreduce,barrier"]), 4))
        self.assertEqual({data for *_, data in fresh}, {"fresh"})
        everything = list(compare.cells_of(compare.arguments([]), 4))
        self.assertNotIn("pingpong", {op for op, *_ in everything})
        self.assertEqual({op for op, dtype, *_ in everything if dtype == "bfloat16"}, {"allreduce"})
        for wrong in (["--ops", "allredcue"], ["--ranks", "1"], ["--sizes", "8X"], ["--hogs", "-1"], ["--hogs", "2", "session"],
                      ["--data", "old"], ["--limits", "/nowhere"]):
            with self.assertRaises(SystemExit), open(os.devnull, "w") as null:
                sys.stderr, kept = null, sys.stderr
                try:
                    compare.arguments(wrong)
                finally:
                    sys.stderr = kept


class Bounds(unittest.TestCase):
    MACHINE = bounds.parse_machine("""machine cpus=2
latency what=line_one_way us=0.1
latency what=yield_same_cpu us=0.8
latency what=tcp_one_way us=3.0
latency what=tcp_message_cpu us=2.0
bandwidth kernel=copy threads=1 bytes=65536 traffic=40
bandwidth kernel=copy threads=2 bytes=65536 traffic=80
bandwidth kernel=copy threads=2 bytes=1048576 traffic=50
bandwidth kernel=copy_nt threads=2 bytes=1048576 traffic=60
socket bytes=65536 traffic=8
socket bytes=4194304 traffic=10
""")

    def test_large_messages_are_bounded_by_the_bytes_that_must_move(self):
        us, terms = bounds.bound(self.MACHINE, "allreduce", 1 << 20, 4, "shm")
        self.assertAlmostEqual(us, 8 * (1 << 20) / 60e3)  # N S + N S = 8 S, at 60 GB/s
        self.assertEqual(max(terms, key=terms.get), "memory")
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "reduce", 1 << 20, 4, "shm")[0], 5 * (1 << 20) / 60e3)

    def test_small_messages_are_bounded_by_the_hop_or_the_switches(self):
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "allreduce", 8, 2, "shm")[0], 0.1)
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "barrier", 0, 8, "shm")[0], 3 * 0.8)
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "allreduce", 8, 8, "shm", "fresh")[0], 4 * 0.8)
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "allreduce", 8, 2, "shm", "fresh")[0], 0.1)
        self.assertLess(bounds.bound(self.MACHINE, "broadcast", 8, 2, "shm")[0], 0.01)  # the root may run ahead

    def test_tcp(self):
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "allreduce", 8, 2, "tcp")[0], 3.0)
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "barrier", 0, 4, "tcp")[0], 6 * 2.0 / 2)
        self.assertAlmostEqual(bounds.bound(self.MACHINE, "allreduce", 4 << 20, 2, "tcp")[0], 2 * (4 << 20) / 10e3)

    def test_plain_memory_is_bounded_by_the_faster_way_to_cross(self):
        machine = bounds.parse_machine("machine cpus=2\n" + "".join(
            f"crossing form={form} data={data} way={way} bytes={size} us={us}\n" for form, data, way, size, us in (
                ("one_way", "fresh", "copies", 4096, 1), ("one_way", "fresh", "read", 4096, 2), ("one_way", "fresh", "copies", 8192, 3),
                ("exchange", "fresh", "copies", 4096, 4), ("exchange", "fresh", "read", 8192, 7),
                ("exchange_own", "fresh", "copies", 4096, 5))))
        plain = lambda op, size, ranks=2, data="fresh": bounds.plain_bound(machine, op, size, ranks, data)  # noqa: E731
        self.assertEqual(plain("pingpong", 4096), 1)
        self.assertEqual(plain("pingpong", 6144), 2)
        self.assertEqual(plain("reducescatter", 8192), 4)
        self.assertEqual(plain("alltoall", 8192), 5)
        self.assertEqual(plain("allreduce", 8192), 7)  # once all of it, not twice a half
        for nothing in (plain("pingpong", 8), plain("pingpong", 16384), plain("pingpong", 4096, ranks=4),
                        plain("pingpong", 4096, data="reused"), plain("barrier", 0)):
            self.assertIsNone(nothing)

        self.assertEqual(bounds.least_us(machine, "allreduce", 8192, 2, "shm", "fresh"), 7)
        self.assertEqual(bounds.least_us(self.MACHINE, "allreduce", 8, 2, "tcp", "fresh"), 3)  # of sockets nothing crosses so
        self.assertEqual(bounds.least_us(self.MACHINE, "broadcast", 8, 2, "shm", "fresh"), 0)

    def test_bandwidth_comes_from_buffers_that_are_not_larger(self):
        self.assertEqual(bounds.traffic(self.MACHINE, 2, 300 << 10), 80)
        self.assertEqual(bounds.traffic(self.MACHINE, 2, 64 << 20), 60)
        self.assertEqual(bounds.traffic(self.MACHINE, 1, 64 << 20), 40)

    def test_every_collective_has_a_bound_and_a_formula(self):
        for op in results.OPS:
            self.assertGreaterEqual(bounds.bound(self.MACHINE, op, 0 if op == "barrier" else 8, 2, "tcp")[0], 0)
            self.assertTrue(bounds.formula(op))
        with self.assertRaises(ValueError):
            bounds.parse_machine("nonsense a=1")


if __name__ == "__main__":
    unittest.main()
