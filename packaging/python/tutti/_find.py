"""Where the libraries and the programs are: in the folder that TUTTI_HOME names (a build folder, or the prefix of an
installation); without it in the package itself (a wheel), then where the system finds libraries and programs."""
import os
import pathlib
import shutil

PACKAGE = pathlib.Path(__file__).resolve().parent
# Where each lies below TUTTI_HOME: in a build folder, and in an installation's.
_PLACES = {"libtutti.so.0": ("packaging",), "libtutti_parallel.so.0": ("src/parallel",), "libnccl.so.2": ("packaging",)}
_INSTALLED = ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")


def home():
    """TUTTI_HOME as a path, or None."""
    value = os.environ.get("TUTTI_HOME")
    return pathlib.Path(value) if value else None


def _candidates(name):
    below = home()
    if below is not None:
        return [below / folder / name for folder in (*_PLACES.get(name, ()), *_INSTALLED, "lib/tutti/nccl")]
    return [PACKAGE / "lib" / name, PACKAGE / "lib" / "tutti" / "nccl" / name]


def find_library(name):
    """The path of a library of Tutti's, or its bare name where only the system can know."""
    looked = _candidates(name)
    for path in looked:
        if path.exists():
            return str(path)
    if home() is not None:
        raise ImportError(f"TUTTI_HOME={home()} has no {name}: looked for {', '.join(map(str, looked))}. It names a "
                          "build folder (meson setup) or the prefix of an installation")
    return name


def find_program(name):
    """The path of a program of Tutti's."""
    below = home()
    looked = [PACKAGE / "bin" / name] if below is None else [below / folder / name for folder in ("tools", "perf", "bin")]
    for path in looked:
        if path.exists():
            return str(path)
    found = None if below is not None else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no {name}: looked for {', '.join(map(str, looked))}"
                                + ("" if below is not None else " and in PATH; TUTTI_HOME names a build folder or a prefix"))
    return found
