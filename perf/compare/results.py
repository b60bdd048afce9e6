"""What the times say: statistics of a cell, ratios, the tables, the JSON file.  No processes, no clock."""
import math
import statistics

import placement

OPS = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce", "barrier", "pingpong")


def bus_factor(op, ranks):
    """busbw / algbw, as nccl-tests counts it."""
    if op == "allreduce":
        return 2 * (ranks - 1) / ranks
    if op in ("allgather", "reducescatter", "alltoall"):
        return (ranks - 1) / ranks
    return 1.0


def size_name(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def parse_size(text):
    text = text.strip()
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    scale = units.get(text[-1:].lower(), 1)
    number = text[:-1] if scale != 1 else text
    if not number.isdigit() or int(number) == 0:
        raise ValueError(f"{text!r} is no size (8, 64K, 4M)")
    return int(number) * scale


def time_text(us):
    if us is None:
        return "-"
    if us < 100:
        return f"{us:.2f}"
    return f"{us:.0f}"


CLEAN = 0.05  # a block from which other programs took a smaller share of the time counts as undisturbed
ENOUGH = 3  # undisturbed blocks that a median needs; with fewer the least disturbed are taken, and the cell is marked


def ratio_text(ratio):
    if ratio is None:
        return "-"
    return f"{ratio:.2f}" if ratio >= 0.095 else f"{ratio:.1g}"


DATA = ("reused", "fresh")  # what is sent: the same in all calls, or new in each
IN_PLACE = "in-place"  # new in each, and the result takes its place


class Cell:
    """One collective, type, size, rank count and kind of data: the blocks of every setting, as (microseconds per call,
    disturbance, round, line).  In a round every setting has one turn.  line: how near the cores were (placement.py)."""

    def __init__(self, op, dtype, size, ranks, transport, data="reused"):
        self.op, self.dtype, self.size, self.ranks, self.transport, self.data = op, dtype, size, ranks, transport, data
        self.blocks = {}  # setting -> [(us, disturbance, round, line)]
        self.families = {}  # setting -> library
        self.failures = {}  # setting -> why there is no time
        self.limit_us = None  # below which nothing can go on this machine (perf/limits), if that is known

    def add(self, setting, family, blocks, number=0):
        """blocks: (us, disturbance), and line if that is known."""
        self.blocks.setdefault(setting, []).extend((float(us), float(share), number, line[0] if line else None)
                                                   for us, share, *line in blocks)
        self.families[setting] = family

    def times(self, setting):
        """Of the undisturbed blocks; if they are too few, of the least disturbed ones."""
        blocks = sorted(self.blocks.get(setting, []), key=lambda block: block[1])
        clean = sum(share < CLEAN for _, share, *_ in blocks)
        return [us for us, *_ in blocks[:max(ENOUGH, clean)]]

    def steady(self, setting):
        return sum(share < CLEAN for _, share, *_ in self.blocks.get(setting, [])) >= ENOUGH

    def median(self, setting):
        times = self.times(setting)
        return statistics.median(times) if times else None

    def best(self, setting):
        return min((us for us, *_ in self.blocks.get(setting, [])), default=None)

    def rounds(self, setting, placed=False):
        """{round: median of its undisturbed blocks}; where no round has any, of all blocks.  placed: {(round, how near the
        cores were): ...} of the blocks for which that is known."""
        rounds = {}
        blocks = self.blocks.get(setting, [])
        clean = [block for block in blocks if block[1] < CLEAN]
        kinds = placement.kinds(self.lines()) if placed else []
        for us, _, number, line in clean or blocks:
            kind = next((i for i, kind in enumerate(kinds) if line in kind), None)
            if not placed or kind is not None:
                rounds.setdefault((number, kind) if placed else number, []).append(us)
        return {key: statistics.median(times) for key, times in rounds.items()}

    def lines(self):
        """Of all blocks, how near the cores were, as far as it is known."""
        return [line for blocks in self.blocks.values() for *_, line in blocks if line is not None]

    def paired(self, setting, peer):
        """The peer's time / this setting's: the median over the rounds that have both with the cores as near, so that what
        the machine does favours nobody.  Where no round has, that over turns of different rounds with the cores as near;
        where that is not known, over rounds; without a round that has both, the ratio of the medians.  None if either has no
        time."""
        mine, other = self.rounds(setting, placed=True), self.rounds(peer, placed=True)
        both = ([other[key] / mine[key] for key in mine if key in other]
                or [other[b] / mine[a] for a in mine for b in other if a[1] == b[1]])
        if not both:
            mine, other = self.rounds(setting), self.rounds(peer)
            both = [other[number] / mine[number] for number in mine if number in other and mine[number] > 0]
        if both:
            return statistics.median(both)
        return self.median(peer) / self.median(setting) if self.median(setting) and self.median(peer) else None

    def busbw(self, setting):
        """GB/s (1e9), of the median."""
        us = self.median(setting)
        return None if us is None or self.op == "barrier" else self.size / us / 1e3 * bus_factor(self.op, self.ranks)

    def peers(self):
        return [s for s in self.blocks if self.families[s] != "tutti" and self.blocks[s]]

    def best_peer(self, of=None):
        """The peer's setting that is the fastest beside Tutti (or, of=Cell.best, has the smallest best time); None
        without peers."""
        if of is None and self.blocks.get("tutti"):
            return min(self.peers(), key=lambda s: self.paired("tutti", s), default=None)
        of = of or Cell.median
        return min(self.peers(), key=lambda s: of(self, s), default=None)

    def ratio(self, setting, of=None):
        """Best peer's time / this setting's: above 1, this setting is faster.  None if either is missing."""
        if of is None:
            ratios = [r for peer in self.peers() if (r := self.paired(setting, peer)) is not None]
            return min(ratios, default=None)
        peer = self.best_peer(of)
        mine = of(self, setting)
        return None if peer is None or not mine else of(self, peer) / mine

    def times_limit(self, setting):
        """The setting's time / the limit; None if either is not known."""
        us = self.median(setting) if setting else None
        return us / self.limit_us if us and self.limit_us else None

    def as_json(self):
        peer = self.best_peer()
        settings = {s: {"library": self.families[s], "median_us": self.median(s), "best_us": self.best(s),
                        "busbw_gbps": self.busbw(s), "steady": self.steady(s),
                        "blocks": [[us, round(share, 3), number, line] for us, share, number, line in self.blocks[s]]}
                    for s in self.blocks}
        return {"collective": self.op, "type": self.dtype, "bytes": self.size, "ranks": self.ranks,
                "transport": self.transport, "data": self.data, "settings": settings, "failures": self.failures,
                "best_peer": peer, "limit_us": self.limit_us,
                "ratio_median": {s: self.ratio(s) for s in self.blocks if self.families[s] == "tutti"},
                "ratio_best": {s: self.ratio(s, Cell.best) for s in self.blocks if self.families[s] == "tutti"}}


def cell_from_json(data):
    cell = Cell(data["collective"], data["type"], data["bytes"], data["ranks"], data["transport"],
                data.get("data", "reused"))
    for name, setting in data["settings"].items():
        for us, share, *more in setting["blocks"]:  # the round, and how near cores were, in files that are young enough
            cell.add(name, setting["library"], [(us, share, *more[1:])], *more[:1])
    cell.failures = dict(data.get("failures", {}))
    cell.limit_us = data.get("limit_us")
    return cell


def noisy(cell):
    """Those of Tutti and the best peer whose blocks other programs disturbed: the ratio says little then."""
    return [s for s in ("tutti", cell.best_peer()) if s and cell.blocks.get(s) and not cell.steady(s)]


def geometric_mean(values):
    values = [v for v in values if v]
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


# ---- text

COLUMNS = f"{'size':>9} {'tutti us':>19} {'busbw':>7} {'registered us':>19} {'best peer us':>19} {'busbw':>7} " \
          f"{'ratio':>7} {'reg.':>7} "
LIMIT_COLUMNS = f"{'limit us':>9} {'x limit':>8} {'peer x':>7} "


def row_text(cell):
    """One line of the table: median (best) times, busbw in GB/s, ratios within rounds."""
    def both(setting):
        return f"{time_text(cell.median(setting))} ({time_text(cell.best(setting))})" if setting else "-"

    def number(value, form):
        return "-" if value is None else format(value, form)
    peer = cell.best_peer()
    disturbed = noisy(cell)
    return (f"{'-' if cell.op == 'barrier' else size_name(cell.size):>9} {both('tutti'):>19} "
            f"{number(cell.busbw('tutti'), '.2f'):>7} {both('tutti+reg'):>19} {both(peer):>19} "
            f"{number(cell.busbw(peer) if peer else None, '.2f'):>7} {ratio_text(cell.ratio('tutti')):>7} "
            f"{ratio_text(cell.ratio('tutti+reg')):>7} {_limit_text(cell, peer)} {peer or 'none'}"
            f"{'  ~' + ', '.join(disturbed) if disturbed else ''}")


def _limit_text(cell, peer):
    """The limit, and how many times that Tutti and the best peer take: the last is the most that a ratio could be."""
    if cell.limit_us is None:
        return ""
    return f"{time_text(cell.limit_us):>9} {ratio_text(cell.times_limit('tutti')):>8} {ratio_text(cell.times_limit(peer)):>7} "


def header_text(op, dtype, ranks, transport, data="reused", limits=False):
    return f"\n{op}, {dtype}, {ranks} ranks, {transport}, {data} data\n{COLUMNS}{LIMIT_COLUMNS if limits else ''} peer"


def table_text(cells):
    """All cells, with a header before each collective, type and rank count."""
    lines, last = [], None
    for cell in cells:
        key = (cell.op, cell.dtype, cell.ranks, cell.transport, cell.data)
        if key != last:
            lines.append(header_text(*key, limits=cell.limit_us is not None))
        last = key
        lines.append(row_text(cell))
        lines += [f"          {setting}: {why}" for setting, why in cell.failures.items()]
    return "\n".join(lines)


def all_settings_text(cell):
    return "          " + ", ".join(f"{s} {time_text(cell.median(s))} ({time_text(cell.best(s))})" for s in cell.blocks)


def summary_text(cells):
    """Per collective: geometric mean of the ratios, share of cells won; the worst cell comes last.  Cells that were too
    noisy are left out and counted."""
    rated = [c for c in cells if c.ratio("tutti") is not None]
    good = [c for c in rated if not noisy(c)]
    if not good:
        return f"\nno cell has both Tutti and a peer, undisturbed ({len(rated)} disturbed): no ratios"
    lines = ["\nratio = best peer's time / Tutti's in the same round, the cores as near, median over rounds (above 1: Tutti is "
             "faster)",
             f"{'collective':>14} {'type':>9} {'ranks':>5} {'transport':>9} {'data':>7} {'geo. mean':>9} {'reg.':>7} {'won':>7} "
             f"{'worst':>7}  at"]
    groups = {}
    for cell in good:
        groups.setdefault((cell.op, cell.dtype, cell.ranks, cell.transport, cell.data), []).append(cell)
    for (op, dtype, ranks, transport, data), group in groups.items():
        registered = geometric_mean([c.ratio("tutti+reg") for c in group])
        worst = min(group, key=lambda c: c.ratio("tutti"))
        lines.append(f"{op:>14} {dtype:>9} {ranks:>5} {transport:>9} {data:>7} "
                     f"{ratio_text(geometric_mean([c.ratio('tutti') for c in group])):>9} "
                     f"{ratio_text(registered):>7} {_won(group):>7} "
                     f"{ratio_text(worst.ratio('tutti')):>7}  {_at(worst)} against {worst.best_peer()}")
    lines.append("")
    kinds = [data for data in DATA if any(c.data == data for c in good)]
    for data in kinds if len(kinds) > 1 else ():
        lines.append(f"{data} data: {_totals([c for c in good if c.data == data])}")
    worst = min(good, key=lambda c: c.ratio("tutti"))
    lines.append(f"all cells: {_totals(good)}"
                 + (f"; {len(rated) - len(good)} more were disturbed too much to count" if len(rated) > len(good) else ""))
    lines += _beside_limits(good) + _placements(good)
    lines.append(f"worst cell: {worst.op} {worst.dtype}, {worst.ranks} ranks, {worst.transport}, {_at(worst)}: ratio "
                 f"{ratio_text(worst.ratio('tutti'))} ({time_text(worst.median('tutti'))} us against "
                 f"{time_text(worst.median(worst.best_peer()))} us of {worst.best_peer()}, {worst.data} data)")
    return "\n".join(lines)


def _totals(cells):
    registered = geometric_mean([c.ratio("tutti+reg") for c in cells])
    return (f"geometric mean {ratio_text(geometric_mean([c.ratio('tutti') for c in cells]))}, registered "
            f"{ratio_text(registered)}, won {_won(cells)}")


def _placements(cells):
    """How near the cores were in the blocks of all cells, in a line; none if that is not known."""
    lines = [line for cell in cells for line in cell.lines()]
    return [f"a cache line crossed between the cores of ranks 0 and 1 in {placement.text(lines)}"] if lines else []


def _beside_limits(cells):
    """What of the times no implementation could save, in a line; none without limits."""
    known = [c for c in cells if c.times_limit("tutti")]
    if not known:
        return []
    mine, theirs = (geometric_mean([of(c) for c in known]) for of in (
        lambda c: c.times_limit("tutti"), lambda c: c.times_limit(c.best_peer())))
    return [f"beside the machine's limits ({len(known)} cells, geometric means): Tutti takes {mine:.2f} times as long, the best "
            f"peers {theirs:.2f} times"]


def _won(cells):
    return f"{sum(c.ratio('tutti') >= 1 for c in cells)}/{len(cells)}"


def _at(cell):
    return "-" if cell.op == "barrier" else size_name(cell.size)


def compact_text(cells):
    """One line per size, one column per collective: the ratios of one rank count and transport at a glance."""
    lines = []
    for key in dict.fromkeys((c.ranks, c.transport, c.dtype, c.data) for c in cells):
        chosen = [c for c in cells if (c.ranks, c.transport, c.dtype, c.data) == key]
        ops = [op for op in OPS if any(c.op == op for c in chosen)]
        lines.append(f"\nratios, {key[0]} ranks, {key[1]}, {key[2]}, {key[3]} data (plain buffers / registered)")
        lines.append(f"{'size':>9} " + " ".join(f"{op:>17}" for op in ops))
        for size in sorted({c.size for c in chosen}):
            row = {c.op: c for c in chosen if c.size == size}
            lines.append(f"{size_name(size) if size else '-':>9} " + " ".join(f"{_pair(row.get(op)):>17}" for op in ops))
    return "\n".join(lines)


def _pair(cell):
    if cell is None:
        return ""
    return ("~" if noisy(cell) else "") + " / ".join(ratio_text(r) for r in (cell.ratio("tutti"), cell.ratio("tutti+reg")))
