"""Machine, commit and command of a run: a number without them is not a result."""
import os
import platform
import re
import subprocess
import time

from build import TOP


def _lines(path):
    try:
        with open(path) as f:
            return f.read().splitlines()
    except OSError:
        return []


def machine():
    model = next((line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    system = next((line.split("=", 1)[1].strip('"') for line in _lines("/etc/os-release")
                   if line.startswith("PRETTY_NAME=")), "")
    return f"{model}, {len(os.sched_getaffinity(0))} cpus, Linux {platform.release()}, {system}"


def version(program):
    """What --version prints: the version that the build is told."""
    found = re.search(r"^\s*version: '([^']+)'", "\n".join(_lines(os.path.join(TOP, "meson.build"))), re.M)
    return f"{program} {found.group(1) if found else 'unknown'}"


def commit():
    try:
        done = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def about(program, argv):
    return {"machine": machine(), "commit": commit(), "command": " ".join([program, *argv]),
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "load": os.getloadavg()[0]}


def text(header):
    return f"# {header['machine']}; commit {header['commit']}; load {header['load']:.1f}\n# {header['command']}"
