"""Finds libtutti.so, libtutti_parallel.so and the programs, and gives the C functions typed.

They are looked for in the folder that TUTTI_HOME names (a build folder, or the prefix of an installation), then in the
package itself (a wheel), then where the system finds libraries and programs."""
import ctypes
import functools
import os
import pathlib
import shutil

from . import _api
from ._api import core

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
        return [below / folder / name for folder in (*_PLACES.get(name, ()), *_INSTALLED)]
    return [PACKAGE / "lib" / name]


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


def _load(name):
    path = find_library(name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}. Install the wheel of tutti, or set TUTTI_HOME to a build folder or "
                          "to the prefix of an installation") from None


def _typed(library, functions, module):
    for name, (result, takes) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no {name}: it is of another version than the Python module "
                              f"({module.__name__})") from None
        function.restype, function.argtypes = result, takes
    return library


@functools.lru_cache(maxsize=None)
def library():
    """libtutti.so with all of tutti.h."""
    return _typed(_load("libtutti.so.0"), core.FUNCTIONS, core)


@functools.lru_cache(maxsize=None)
def parallel_library():
    """libtutti_parallel.so with all of tutti/parallel/*.h."""
    library()
    from ._api import parallel
    return _typed(_load("libtutti_parallel.so.0"), parallel.FUNCTIONS, parallel)


def make(kind, **fields):
    """A struct of the C API as its initializer leaves it, but for `fields`."""
    struct = kind()
    defaults = core.DEFAULTS
    if kind not in defaults:
        from ._api import parallel
        defaults = parallel.DEFAULTS
    for (name, *_), value in zip(kind._fields_, defaults[kind]):
        if value is not None and value != ():
            setattr(struct, name, value)
    for name, value in fields.items():
        if not hasattr(struct, name):
            known = ", ".join(name for name, _ in kind._fields_ if name not in ("size", "magic", "version"))
            raise TypeError(f"{kind.__name__} has no field {name}; it has {known}")
        setattr(struct, name, value)
    return struct


__all__ = ["_api", "find_library", "find_program", "home", "library", "make", "parallel_library"]
