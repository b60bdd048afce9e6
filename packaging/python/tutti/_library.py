"""libtutti.so and libtutti_parallel.so, with their C functions typed.

_find.py says where."""
import ctypes
import functools

from ._api import core
from ._find import find_library, find_program, home


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


def make(kind, /, **fields):
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


__all__ = ["find_library", "find_program", "home", "library", "make", "parallel_library"]
