"""Programs run as a user would, in an environment in which torch finds the backend as it does where the wheel is installed."""
import functools
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = TOP / "examples" / "python"


@functools.lru_cache(maxsize=None)
def metadata():
    """A folder with the entry points of pyproject.toml, as installers write them; it lives as long as this process."""
    import tomllib  # of Python 3.11
    folder = tempfile.TemporaryDirectory(prefix="tutti-metadata-")
    entries = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["entry-points"]["torch.distributed.backends"]
    info = pathlib.Path(folder.name) / "tutti-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tutti\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.distributed.backends]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    return folder


def environment(**added):
    if "TUTTI_HOME" not in os.environ:  # tutti is installed, and so are its entry points
        return {**os.environ, **added}
    path = [metadata().name, str(TOP / "packaging" / "python"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **added}


def python(*arguments, **added):
    """What the program prints; it has to succeed.  added: to the environment."""
    done = subprocess.run([sys.executable, *map(str, arguments)], env=environment(**added), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def torchrun(*arguments, ranks=4):
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        free = port.getsockname()[1]
    return python("-m", "torch.distributed.run", "--nproc-per-node", ranks, "--master-port", free, "--log-dir", "/tmp", *arguments)
