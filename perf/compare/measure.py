"""Times cells: every setting in turn, several passes, so that what disturbs the machine disturbs all alike."""
import os
import sys

from group import Group, GroupError
from results import Cell
from settings import environment_for, launch_line

BLOCK_US = 8000.0  # a block of calls takes about this long: long beside a time slice's jitter, short beside a pass
# Beside busy loops a block has to have many turns of the core, or it says when the turns fell and not what calls take.
BESIDE_BLOCK_US = 60000.0
MOST_CALLS = 100000
MOST_BLOCKS = 12
HOPELESS = 12.0  # a setting this many times slower than the best so far gets no second pass
ENOUGH_CLEAN = 2  # undisturbed blocks per turn
KEEP_BYTES = 64 << 20  # buffers of all ranks of a setting above this are given back after every turn


def say(text):
    print(text, file=sys.stderr, flush=True)


class Runner:
    """The groups of one transport and rank count.  A group that fails is started anew, at most `lives` times."""

    def __init__(self, settings, programs, launchers, ranks, cpus, timeout, lives=3, nice=None, hogs=0, hogs_kind="",
                 launch=launch_line, warm_us=0.0):
        self.settings, self.programs, self.launchers = settings, programs, launchers
        self.ranks, self.cpus, self.timeout, self.nice = ranks, cpus, timeout, nice
        self.beside = hogs > 0  # other programs are part of what is measured
        self.hogs = hogs if hogs_kind == "same-session" else 0  # those that every group has in its session
        self.launch = launch  # as launch_line
        self.warm_us = warm_us  # of calls that are not timed, at the start of each cell
        self.oversubscribed = ranks > len(os.sched_getaffinity(0))
        self.groups, self.lives, self.reasons = {}, {self.key(s): lives for s in settings}, {}

    @staticmethod
    def key(setting):
        """Settings that differ in the buffers only share their processes."""
        return setting.family, setting.environment, setting.arguments, setting.pinned

    def group(self, setting):
        key = self.key(setting)
        if key in self.groups:
            return self.groups[key]
        if self.lives[key] <= 0:
            raise GroupError(self.reasons.get(key, "does not start"))
        self.lives[key] -= 1
        program = self.programs[setting.family]
        try:
            self.groups[key] = Group(setting.name, self.ranks, program,
                                     environment_for(setting, self.ranks, self.cpus, self.oversubscribed, self.beside),
                                     self.launch(setting, self.ranks, program, self.launchers, self.oversubscribed),
                                     self.timeout, max(1, len(os.sched_getaffinity(0))), self.nice, self.hogs)
        except GroupError as error:
            self.reasons[key] = str(error)
            raise
        return self.groups[key]

    def lose(self, setting, error):
        key = self.key(setting)
        self.reasons[key] = str(error)
        group = self.groups.pop(key, None)
        if group is not None:
            group.stop()

    def libraries(self):
        """{setting: what the library says it is} of all that start; the others are reported."""
        found = {}
        for setting in self.settings:
            try:
                found[setting.name] = self.group(setting).library
            except GroupError as error:
                say(f"not compared, {setting.name}: {error}")
                self.lives[self.key(setting)] = 0
        return found

    def stop(self):
        for group in self.groups.values():
            group.quit()
        self.groups.clear()


def turn(group, op, dtype, size, memory, budget_us, best_us, beside=False, data="reused", warm_us=0.0):
    """One setting's turn at one cell: checked call, warm-up, calibration, blocks.  Blocks, or None: unsupported.
    best_us: the best setting's time so far, to cut hopeless turns short.  warm_us: of calls before anything is timed.
    Where other programs disturb most blocks, shorter ones follow, of which more fit between two disturbances."""
    if not group.cell(op, dtype, size, memory, data):
        return None
    if warm_us:
        us = group.time(1, 1, data)[0].us
        while warm_us > 0:  # the first call says little of the others
            calls = calls_for(warm_us / 4, us)
            us = group.time(calls, 1, data)[0].us
            warm_us -= max(calls * us, 1.0)
    if beside:
        return blocks_beside(group, budget_us, data)
    block = group.time(1, 1, data)[0]
    if best_us and block.clean and block.us > HOPELESS * best_us and block.us > 4 * BLOCK_US:
        return [block]
    us = block.us
    if us < BLOCK_US:  # one call says little of the next thousand: warm up, then look again
        us = min(us, group.time(calls_for(BLOCK_US / 8, us), 1, data)[0].us)
        us = min(b.us for b in group.time(calls_for(BLOCK_US / 4, us), 2, data))
    blocks = []
    for length_us in (BLOCK_US, BLOCK_US / 4, BLOCK_US / 4):
        calls = calls_for(length_us, us)
        blocks += group.time(calls, blocks_for(budget_us, us * calls), data)
        if sum(b.clean for b in blocks) >= ENOUGH_CLEAN:
            break
        us = min(us, *(b.us for b in blocks))
    return blocks


def blocks_beside(group, budget_us, data):
    """Blocks of as many calls as fill BESIDE_BLOCK_US on the average: what a few calls take says little of others."""
    calls = 1
    while calls < MOST_CALLS and (spent := group.time(calls, 1, data)[0].us * calls) < BESIDE_BLOCK_US / 2:
        calls = min(MOST_CALLS, calls * (8 if spent < BESIDE_BLOCK_US / 16 else 2))
    return group.time(calls, blocks_for(5 * budget_us, BESIDE_BLOCK_US), data)


def calls_for(target_us, us):
    return int(max(1, min(MOST_CALLS, target_us / max(us, 1e-3))))


def blocks_for(budget_us, block_us):
    return int(max(2, min(MOST_BLOCKS, budget_us / max(block_us, 1.0))))


def order_of(settings, number):
    """Tutti's settings between the peers', starting elsewhere in every pass."""
    own = [s for s in settings if s.family == "tutti"]
    peers = [s for s in settings if s.family != "tutti"]
    mixed = []
    step = max(1, -(-len(peers) // max(1, len(own))))
    for i, setting in enumerate(own):
        mixed += [setting, *peers[i * step:(i + 1) * step]]
    mixed += peers[len(own) * step:]
    start = number % max(1, len(mixed))
    return mixed[start:] + mixed[:start]


def measure_cell(runner, op, dtype, size, passes, budget_us, data="reused"):
    """A Cell with what every setting needed.  Failures of a setting are kept in it and end nothing else."""
    cell = Cell(op, dtype, size, runner.ranks, runner.settings[0].transport, data)
    skip = set()
    for number in range(passes):
        for setting in order_of(runner.settings, number * 3):
            if setting.name not in skip:
                one_turn(runner, cell, setting, number, budget_us, skip)
    for number in range(passes, 2 * passes):  # once more where other programs disturbed what matters for the result
        again = disturbed(runner.settings, cell, skip)
        for setting in runner.settings:  # Tutti's too: what counts are ratios within a round
            if setting in again or (again and setting.family == "tutti" and setting.name not in skip):
                one_turn(runner, cell, setting, number, budget_us, skip)
    return cell


def one_turn(runner, cell, setting, number, budget_us, skip):
    try:
        group = runner.group(setting)
        best = min((cell.median(s) for s in cell.blocks), default=None)
        with group.beside():
            warm_us = runner.warm_us if number == 0 else 0.0
            blocks = turn(group, cell.op, cell.dtype, cell.size, setting.memory, budget_us, best, runner.beside, cell.data,
                          warm_us)
        if cell.size * runner.ranks * 2 > KEEP_BYTES:
            group.drop()
    except GroupError as error:
        cell.failures[setting.name] = str(error)
        skip.add(setting.name)
        runner.lose(setting, error)
        return
    if blocks is None:
        skip.add(setting.name)
        return
    cell.add(setting.name, setting.family, [(b.us, 0.0 if runner.beside else b.disturbance, b.line) for b in blocks], number)
    best = min(cell.median(s) for s in cell.blocks)
    if setting.family != "tutti" and cell.steady(setting.name) and cell.median(setting.name) > HOPELESS * best:
        skip.add(setting.name)


def disturbed(settings, cell, skip):
    """Tutti's settings and the peers that could be the best, without enough undisturbed blocks."""
    least = min((cell.best(s.name) for s in settings if s.family != "tutti" and cell.blocks.get(s.name)), default=0)
    return [s for s in settings if s.name not in skip and cell.blocks.get(s.name) and not cell.steady(s.name)
            and (s.family == "tutti" or cell.best(s.name) <= 1.5 * least)]
