"""Options of one process group."""
from datetime import timedelta

from torch._C import _distributed_c10d as c10d

from .._api import core

DEFAULT_TIMEOUT = timedelta(minutes=30)  # torch's own
WAITS = {"auto": core.TUTTI_WAIT_AUTO, "spin": core.TUTTI_WAIT_SPIN, "yield": core.TUTTI_WAIT_YIELD,
         "block": core.TUTTI_WAIT_BLOCK}
WIRES = {"full": core.TUTTI_WIRE_FULL, "bf16": core.TUTTI_WIRE_BF16, "fp8": core.TUTTI_WIRE_FP8,
         "int8": core.TUTTI_WIRE_INT8}
_Base = c10d.Backend.Options if hasattr(c10d.Backend, "Options") else c10d.ProcessGroup.Options


class Options(_Base):
    """Give it as pg_options to init_process_group or new_group; every rank the same.

    lanes             how many collectives of the group can be under way at once, 1 to 8
    reproducible      floating-point sums are the same bits always
    transports        as TUTTI_TRANSPORTS: "shm,tcp", "^shm"
    net_name          the network between hosts, as TUTTI_NET
    wire              what sums of floats travel as between hosts, "full", "bf16", "fp8" or "int8"; else TUTTI_WIRE
    n_channels        parallel lanes within one collective
    wait              how threads wait for other ranks, as TUTTI_WAIT, which holds where it is None
    shared_buckets    DistributedDataParallel's buckets, and FullyShardedDataParallel's flat parameters, move to shared memory
    shutdown_timeout  how long destroy_process_group waits for the other ranks"""

    def __init__(self, timeout=DEFAULT_TIMEOUT, *, lanes=2, reproducible=None, transports=None, net_name=None,
                 n_channels=None, wait=None, wire=None, shared_buckets=True, shutdown_timeout=timedelta(seconds=60)):
        super().__init__("tutti", timeout)
        if not 1 <= lanes <= 8:
            raise ValueError(f"tutti: lanes is {lanes}, and may be 1 to 8")
        if wait not in (None, *WAITS):
            raise ValueError(f"tutti: wait is {wait!r}, and may be {', '.join(WAITS)}")
        if wire not in (None, *WIRES):
            raise ValueError(f"tutti: wire is {wire!r}, and may be {', '.join(WIRES)}")
        self.wait, self.wire = wait, wire
        self.lanes, self.shared_buckets, self.shutdown_timeout = lanes, shared_buckets, shutdown_timeout
        self.reproducible, self.transports, self.net_name, self.n_channels = reproducible, transports, net_name, n_channels

    def fields(self):
        """Those of tuttiConfig_t that are set."""
        text = {"transports": self.transports, "netName": self.net_name}
        fields = {name: value.encode() for name, value in text.items() if value is not None}
        if self.reproducible is not None:
            fields["reproducible"] = int(self.reproducible)
        if self.n_channels is not None:
            fields["nChannels"] = self.n_channels
        if self.wait is not None:
            fields["waitMode"] = WAITS[self.wait]
        if self.wire is not None:
            fields["wire"] = WIRES[self.wire]
        fields["device"] = core.TUTTI_DEVICE_HOST
        return fields

    def copy(self, timeout):
        """For a group that was split from this one's."""
        return Options(timeout, lanes=self.lanes, reproducible=self.reproducible, transports=self.transports,
                       net_name=self.net_name, n_channels=self.n_channels, wait=self.wait, wire=self.wire, shared_buckets=self.shared_buckets,
                       shutdown_timeout=self.shutdown_timeout)


def options_of(given, timeout):
    """Options for a group that the caller gave `given` and torch a timeout."""
    if isinstance(given, Options):
        return given.copy(timeout)
    if given is None or type(given) is _Base:
        return Options(timeout)
    raise TypeError(f"tutti: pg_options is a {type(given).__module__}.{type(given).__qualname__}; the backend takes "
                    "tutti.torch.Options")


def milliseconds(timeout):
    """Of a timedelta, as the library takes it: at least 1, as 0 would be for ever."""
    return min(max(int(timeout.total_seconds() * 1000), 1), 2**31 - 1)
