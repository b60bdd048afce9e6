"""What the lanes of CUDA tensors need of torch.cuda, in one place: devices, streams, events, futures.

Tests put an object with the same methods in the place of CUDA (tests/python/torch_backend/test_devices.py)."""
import torch

from .._api import core


class Cuda:
    kind = "cuda"
    memory = core.TUTTI_DEVICE_CUDA  # of its communicators

    def index_of(self, tensor):
        """The device's index; None: the host."""
        return None if tensor.is_cpu else tensor.device.index

    def available(self):
        return torch.cuda.is_available()

    def use(self, index):
        """A context in which it is the current device."""
        return torch.cuda.device(index)

    def stream(self, index):
        return torch.cuda.Stream(index)

    def current_stream(self, index):
        return torch.cuda.current_stream(index)

    def capturing(self, index):
        """Whether what the current stream is given goes into a graph.  Its events may not be asked then, nor those of others."""
        with self.use(index):
            return torch.cuda.is_current_stream_capturing()

    def entered(self, stream):
        """A context in which torch's operations go to the stream."""
        return torch.cuda.stream(stream)

    def handle(self, stream):
        return stream.cuda_stream

    def record(self, stream):
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream, event):
        """What comes on the stream from now on waits; the caller does not."""
        stream.wait_event(event)

    def done(self, event):
        return event.query()

    def future(self, index):
        """One whose result belongs to the streams that are current when it is set."""
        return torch.futures.Future(devices=[torch.device("cuda", index)])


CUDA = Cuda()


def one_place(device, what, *lists):
    """The index of the device that all tensors are on; None: the host."""
    found, place = False, None
    for tensors in lists:
        for tensor in tensors:
            index = device.index_of(tensor)
            if found and index != place:
                raise ValueError(f"tutti: {what}: tensors are on {name_of(device, place)} and on {name_of(device, index)}; one call takes those "
                                 "of one device")
            found, place = True, index
    return place


def name_of(device, index):
    return "the CPU" if index is None else f"{device.kind}:{index}"
