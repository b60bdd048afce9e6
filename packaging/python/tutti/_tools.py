"""tutti.simulate, tutti.plan and tutti.topology: what tutti-sim and tutti-info say, as objects."""
import json
import subprocess

from ._find import find_program
from .errors import InvalidArgument


def _ask(program, *arguments):
    done = subprocess.run([find_program(program), *map(str, arguments), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise InvalidArgument(done.stderr.strip() or f"{program} ended with status {done.returncode}")
    return json.loads(done.stdout)


class _Record:
    """The fields of a JSON object as attributes."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __repr__(self):
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items() if not isinstance(value, (list, dict)))
        return f"{type(self).__name__}({shown})"


class Candidate(_Record):
    """A way to run a collective: algorithm, protocol, channels, us; or algorithm and excluded, why it is none."""


class Plan(_Record):
    """What would be chosen: algorithm, protocol, channels, joined, us, and the candidates that were compared."""

    def __init__(self, fields):
        super().__init__({**fields, "candidates": [Candidate(one) for one in fields["candidates"]]})


class LinkLoad(_Record):
    """A link of a simulated cluster: number, name, load (0 to 1), gbps, bytes."""


class Simulated(_Record):
    """One algorithm in one simulation: algorithm, us, busbw_gbps, channels, messages, and its most loaded links."""

    def __init__(self, fields):
        super().__init__({**fields, "links": [LinkLoad(one) for one in fields["links"]]})


class Simulation(_Record):
    """cluster, ranks, collective, bytes, and results, the fastest first; unfit: algorithms that do not work there."""

    @property
    def best(self):
        return self.results[0]


class Node(_Record):
    """A part of a machine: number, kind, name, parent (a number, -1 for hosts), index, bus_id, memory_bytes, cpus."""


class Link(_Record):
    """Between the nodes a and b: kind, count of lanes, gbps of all of them, and whether that is assumed."""


class Topology(_Record):
    """nodes and links of machines, with notes on what could not be seen."""

    def __init__(self, fields):
        super().__init__({**fields, "nodes": [Node(one) for one in fields["nodes"]],
                          "links": [Link(one) for one in fields["links"]]})

    def all(self, kind):
        """The nodes of a kind: "host", "package", "NUMA node", "PCIe switch", "GPU", "NIC", ..., in any case of letters."""
        return [node for node in self.nodes if node.kind.lower() == kind.lower()]

    def children(self, node):
        return [one for one in self.nodes if one.parent == node.number]

    def __repr__(self):
        return f"Topology({len(self.nodes)} nodes, {len(self.links)} links)"


def simulate(cluster, collective="allreduce", bytes="1M", algorithm=None, links=0, **options):  # noqa: A002
    """What a collective costs on a described cluster ('nodes 4; machine gpu:8 nvlink:18x20.6 nic:8x50', or a file; see
    docs/simulation.md), by every algorithm that works there, or by some: algorithm="ring,tree".
    links: so many of the most loaded links.  options: channels, protocol, root, detail as tutti-sim has them."""
    more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    asked = [cluster, "--collective", collective, "--bytes", bytes, *more]
    unfit = []
    if algorithm is None:
        known = _ask("tutti-sim", cluster, "--collective", collective, "--compare", "--min", bytes, "--max", bytes, *more)
        algorithm, unfit = ",".join(one["algorithm"] for one in known["results"]), known["unfit"]
    told = _ask("tutti-sim", *asked, "--algorithm", algorithm, "--links", max(links, 1))
    results = sorted((Simulated(one) for one in told.pop("results")), key=lambda one: one.us)
    if not links:
        for one in results:
            one.links = []
    return Simulation({**told, "results": results, "unfit": unfit})


def plan(collective, bytes="1M", ranks=2, hosts=1, topology=None, **options):  # noqa: A002
    """What the planner would do for a call on this machine's costs, and what it compared; topology: each host is that
    machine, a file or a line.  options: transport, cores, way, threads=True, direct=True as tutti-info has them."""
    more = []
    for name, value in options.items():
        more += [f"--{name}"] if value is True else [f"--{name}", value]
    described = [] if topology is None else ["--topo", topology]
    return Plan(_ask("tutti-info", "--plan", collective, "--bytes", bytes, "--ranks", ranks, "--hosts", hosts, *described, *more))


def topology(described=None):
    """This machine as Tutti sees it, or one that a file or a line such as 'gpu:8 nvlink:18x25 nic:8x50' describes."""
    return Topology(_ask("tutti-info", "--topology", *([] if described is None else [described])))
