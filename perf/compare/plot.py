"""An SVG of ratios: one panel per collective and rank count, the peers' times relative to Tutti's over message size."""
import math
from xml.sax.saxutils import escape

from results import size_name

WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 300, 210, 56, 120, 44, 64
ACROSS = 4  # panels in a row
COLOURS = {"openmpi": "#d9541a", "mpich": "#7d3c98", "ucc": "#2a8c4a", "gloo": "#b8860b", "registered": "#0b62a4"}
OTHER = "#555555"
LOWEST, HIGHEST = 0.1, 10.0  # of the ratio axis; points beyond are drawn at the edge


def lines_of(cells):
    """{name: [(size, peer's time / Tutti's)]}: each library in its best setting per size; "registered" is Tutti with
    its own memory.  Below 1 it is faster than Tutti."""
    lines = {}
    for cell in sorted(cells, key=lambda c: c.size):
        if not cell.median("tutti"):
            continue
        best = {}
        for setting, family in cell.families.items():
            name = "registered" if setting == "tutti+reg" else family
            ratio = cell.paired("tutti", setting)
            if setting != "tutti" and ratio is not None:
                best[name] = min(ratio, best.get(name, math.inf))
        for name, ratio in best.items():
            lines.setdefault(name, []).append((cell.size, ratio))
    return lines


def svg(cells, subtitle):
    cells = [c for c in cells if c.op != "barrier"]
    keys = list(dict.fromkeys((c.ranks, c.transport, c.op, c.dtype, c.data) for c in cells))
    panels = [(key, lines_of([c for c in cells if (c.ranks, c.transport, c.op, c.dtype, c.data) == key])) for key in keys]
    panels = [(key, lines) for key, lines in panels if lines]
    width = LEFT * 2 + max(2, min(ACROSS, len(panels))) * (WIDTH + GAP_X)
    height = TOP + max(1, -(-len(panels) // ACROSS)) * (HEIGHT + GAP_Y) + 20
    out = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'>",
           "<style>text{font-family:Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222;font-size:13px}"
           ".title{font-size:22px;font-weight:600}.sub{fill:#666}.tick{font-size:11px;fill:#444}"
           ".grid{stroke:#e4e4e4}.one{stroke:#222;stroke-width:1.5}</style>",
           "<rect width='100%' height='100%' fill='#fff'/>",
           f"<text x='{LEFT}' y='34' class='title'>Time of other libraries relative to Tutti (above the line: Tutti is "
           "faster)</text>",
           f"<text x='{LEFT}' y='56' class='sub'>{escape(subtitle)}</text>"]
    for i, (key, lines) in enumerate(panels):
        out.append(_panel(LEFT + i % ACROSS * (WIDTH + GAP_X), TOP + i // ACROSS * (HEIGHT + GAP_Y), key, lines))
    seen = dict.fromkeys(name for _, lines in panels for name in lines)
    out.append(_legend(list(seen)))
    return "\n".join(out) + "\n</svg>\n"


def _legend(names):
    out, x = [], LEFT
    for name in names:
        out.append(f"<line x1='{x}' y1='74' x2='{x + 26}' y2='74' stroke='{COLOURS.get(name, OTHER)}' stroke-width='3'/>"
                   f"<text x='{x + 32}' y='79'>{escape(_label(name))}</text>")
        x += 60 + 8 * len(_label(name))
    return "\n".join(out)


def _label(name):
    return "Tutti, registered buffers" if name == "registered" else name


def _panel(x0, y0, key, lines):
    ranks, transport, op, dtype, data = key
    sizes = sorted({size for points in lines.values() for size, _ in points})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    if high - low < 1:
        low, high = low - 1, high + 1

    def x(size):
        return x0 + (math.log2(size) - low) / (high - low) * WIDTH

    def y(ratio):
        share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
        return y0 + HEIGHT * (1 - share)
    out = [f"<text x='{x0}' y='{y0 - 8}'>{escape(op)}, {escape(dtype)}, {ranks} ranks, {escape(transport)}, {data} data</text>"]
    for ratio in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        out.append(f"<line x1='{x0}' y1='{y(ratio):.1f}' x2='{x0 + WIDTH}' y2='{y(ratio):.1f}' "
                   f"class='{'one' if ratio == 1 else 'grid'}'/>"
                   f"<text x='{x0 - 6}' y='{y(ratio) + 4:.1f}' class='tick' text-anchor='end'>{ratio:g}</text>")
    step = max(1, -(-len(sizes) // 5))
    for size in sizes[::step]:
        out.append(f"<text x='{x(size):.1f}' y='{y0 + HEIGHT + 16}' class='tick' text-anchor='middle'>{size_name(size)}"
                   "</text>")
    for name, points in lines.items():
        colour = COLOURS.get(name, OTHER)
        path = " ".join(f"{x(s):.1f},{y(r):.1f}" for s, r in points)
        out.append(f"<polyline fill='none' stroke='{colour}' stroke-width='2' points='{path}'/>")
        out += [f"<circle cx='{x(s):.1f}' cy='{y(r):.1f}' r='3' fill='{colour}'><title>{escape(_label(name))}, "
                f"{size_name(s)}: {r:.2f}</title></circle>" for s, r in points]
    return "\n".join(out)
