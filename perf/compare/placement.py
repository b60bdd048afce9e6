"""How near to each other the cores of a virtual machine are, block by block: times of blocks that differ in it say nothing of
libraries."""

ALIKE = 2.0  # lines that take no more than so many times as long cross between cores that are as near


def over(before=None, after=None):
    """Microseconds of a line in a block, by the looks at its two ends.  None: not known.  0: the cores moved meanwhile."""
    if not before or not after:
        return None
    return (before * after) ** 0.5 if alike(before, after) else 0.0


def alike(a, b):
    """Whether the cores were as near."""
    return max(a, b) <= ALIKE * min(a, b)


def kinds(lines):
    """Those that are alike, the nearest first: [[microseconds]]."""
    groups = []
    for line in sorted(line for line in lines if line):
        if groups and alike(groups[-1][0], line):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def text(lines):
    """"0.04 us (60 % of the blocks), 0.21 us (40 %)"; empty if nothing is known."""
    groups = kinds(lines)
    moved = sum(line == 0 for line in lines)
    n = sum(map(len, groups)) + moved
    parts = [f"{group[len(group) // 2]:.2f} us ({100 * len(group) / n:.0f} %)" for group in groups]
    return ", ".join(parts + ([f"moved within a block ({100 * moved / n:.0f} %)"] if moved else []))
