"""What goes wrong, as exceptions: `code` is the result code of the C API, the text its sentence."""
from ._api import core
from ._library import library


class TuttiError(RuntimeError):
    """A call of the library failed.  `code`: the result code, `name`: its name in tutti.h."""
    code = core.tuttiInternalError

    def __init__(self, message, code=None):
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def name(self):
        return _NAMES.get(self.code, str(self.code))


class CudaError(TuttiError):
    code = core.tuttiUnhandledCudaError


class SystemFailure(TuttiError):
    """The operating system refused something; the communicator is broken."""
    code = core.tuttiSystemError


class InternalError(TuttiError):
    """A mistake of Tutti's own."""
    code = core.tuttiInternalError


class InvalidArgument(TuttiError, ValueError):
    """This call's arguments are wrong; nothing was started, and the communicator is as good as before."""
    code = core.tuttiInvalidArgument


class InvalidUsage(TuttiError):
    """Right arguments at the wrong time, or ranks that disagree."""
    code = core.tuttiInvalidUsage


class RemoteError(TuttiError, ConnectionError):
    """A peer is dead, has aborted, or cannot be reached; the communicator is broken: abort or shrink it."""
    code = core.tuttiRemoteError


class Timeout(TuttiError, TimeoutError):
    """A rank stayed silent until the deadline; the communicator is broken: abort or shrink it."""
    code = core.tuttiTimeout


_CLASSES = {kind.code: kind for kind in (CudaError, SystemFailure, InternalError, InvalidArgument, InvalidUsage,
                                         RemoteError, Timeout)}
_NAMES = {code: "tutti" + name for name, code in (
    ("Success", 0), ("UnhandledCudaError", 1), ("SystemError", 2), ("InternalError", 3), ("InvalidArgument", 4),
    ("InvalidUsage", 5), ("RemoteError", 6), ("InProgress", 7), ("Timeout", 8))}


def error_of(result, handle=None):
    """The exception for a result code, with the sentence of the communicator or else of this thread."""
    text = library().tuttiGetLastError(handle).decode(errors="replace")
    return _CLASSES.get(result, TuttiError)(text or library().tuttiGetErrorString(result).decode(), result)


def check(result, handle=None):
    """Raise unless the call went well, or goes on in the background (blocking=False)."""
    if result != core.tuttiSuccess and result != core.tuttiInProgress:
        raise error_of(result, handle)
