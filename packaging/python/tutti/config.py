"""Options of a communicator, and where its ranks meet."""
import ctypes

from ._api import core
from ._library import library, make
from .errors import InvalidArgument, check

_DEVICES = {"auto": core.TUTTI_DEVICE_AUTO, "host": core.TUTTI_DEVICE_HOST, "cpu": core.TUTTI_DEVICE_HOST,
            "cuda": core.TUTTI_DEVICE_CUDA}
_WAITS = {"auto": core.TUTTI_WAIT_AUTO, "spin": core.TUTTI_WAIT_SPIN, "yield": core.TUTTI_WAIT_YIELD,
          "block": core.TUTTI_WAIT_BLOCK}
_WIRES = {"full": core.TUTTI_WIRE_FULL, "bf16": core.TUTTI_WIRE_BF16, "fp8": core.TUTTI_WIRE_FP8,
          "int8": core.TUTTI_WIRE_INT8}
_FIELDS = {"blocking": "blocking", "device": "device", "reproducible": "reproducible", "timeout": "timeoutMs",
           "n_channels": "nChannels", "split_share": "splitShare", "transports": "transports", "net_name": "netName",
           "name": "commName", "min_channels": "minChannels", "max_channels": "maxChannels", "wait": "waitMode", "wire": "wire"}


def milliseconds(seconds):
    """Seconds as the library counts them; None: wait for ever.  More than none is at least one."""
    if seconds is None:
        return 0
    if not seconds > 0 or seconds > 2_000_000:
        raise InvalidArgument(f"a timeout of {seconds} seconds: it is more than 0 and at most 2000000, or None for none")
    return max(1, round(seconds * 1000))


def _choice(name, value, choices):
    if value not in choices:
        raise InvalidArgument(f"{name}={value!r}: it is one of {', '.join(choices)}")
    return choices[value]


def make_config(options):
    """A tuttiConfig_t of keyword options (see Communicator), or None without any."""
    if not options:
        return None
    config = make(core.tuttiConfig_t)
    for name, value in options.items():
        if name not in _FIELDS:
            raise TypeError(f"there is no option {name!r} of a communicator; there are {', '.join(_FIELDS)}")
        if name == "device":
            value = _choice(name, value, _DEVICES)
        elif name == "wait":
            value = _choice(name, value, _WAITS)
        elif name == "wire":
            value = _choice(name, value, _WIRES)
        elif name == "timeout":
            value = milliseconds(value)
        elif isinstance(value, str):
            value = value.encode()
        setattr(config, _FIELDS[name], value)
    return config


def by_reference(config):
    return None if config is None else ctypes.byref(config)


class UniqueId:
    """Where the ranks of a new communicator meet, and the secret that proves they may: 128 bytes, to be handed to all
    ranks and nobody else."""
    __slots__ = ("_struct",)

    def __init__(self, data):
        data = bytes(data)
        if len(data) != core.TUTTI_UNIQUE_ID_BYTES:
            raise InvalidArgument(f"a unique id has {core.TUTTI_UNIQUE_ID_BYTES} bytes, not {len(data)}")
        self._struct = core.tuttiUniqueId.from_buffer_copy(data)

    def __bytes__(self):
        return bytes(self._struct)

    def __eq__(self, other):
        return isinstance(other, UniqueId) and bytes(self) == bytes(other)

    def __hash__(self):
        return hash(bytes(self))

    def __reduce__(self):
        return UniqueId, (bytes(self),)


def get_unique_id():
    """A new rendezvous; this process serves it until the communicator is up."""
    struct = core.tuttiUniqueId()
    check(library().tuttiGetUniqueId(ctypes.byref(struct)))
    return UniqueId(struct)


def get_unique_id_at(address, serve):
    """The rendezvous at 'host:port', the same for all who pass the same text; serve: on the one process that opens it."""
    struct = core.tuttiUniqueId()
    check(library().tuttiGetUniqueIdAt(address.encode(), int(serve), ctypes.byref(struct)))
    return UniqueId(struct)


def set_default(name, value):
    """What the variable `name` ("TUTTI_ALGO") is where the environment does not set it; None: the built-in default."""
    check(library().tuttiSetDefault(name.encode(), None if value is None else str(value).encode()))


def get_version():
    """The library's version as (major, minor, patch)."""
    number = ctypes.c_int()
    check(library().tuttiGetVersion(ctypes.byref(number)))
    return number.value // 10000, number.value // 100 % 100, number.value % 100
