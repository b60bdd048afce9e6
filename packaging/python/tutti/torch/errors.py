"""The library, and its errors as those that torch raises."""
import torch.distributed as dist

from .._api import core
from .._library import library

lib = library()


def failure(what, status=None):
    """The exception for the error that this thread's last call has returned, in the library's words."""
    text = lib.tuttiGetLastError(None).decode(errors="replace")
    late = "Timed out waiting for other ranks: " if status == core.tuttiTimeout else ""
    return dist.DistBackendError(f"tutti: {what}: {late}{text}")


def check(status, what):
    """Raise unless the call went well: ValueError where its arguments were wrong and nothing has begun."""
    if status == core.tuttiSuccess:
        return
    if status == core.tuttiInvalidArgument:
        raise ValueError(str(failure(what)))
    raise failure(what, status)
