#!/usr/bin/env python3
"""memory_test.py LIBRARY: ncclMemAlloc, registration and windows on a CUDA device, which the test driver plays."""
import ctypes
import os
import sys


def main():
    os.environ.pop("TUTTI_DEVICE", None)
    nccl = ctypes.CDLL(sys.argv[1])
    nccl.ncclGetLastError.restype = ctypes.c_char_p

    def call(name, *arguments, expect=0):
        result = getattr(nccl, name)(*arguments)
        if result != expect:
            sys.exit(f"{name} gives {result}, not {expect}: {nccl.ncclGetLastError(None).decode()}")

    size = ctypes.c_size_t
    memory, comm = ctypes.c_void_p(), ctypes.c_void_p()
    handle, window = ctypes.c_void_p(), ctypes.c_void_p()
    call("ncclMemAlloc", ctypes.byref(memory), size(1 << 20))
    call("ncclCommInitAll", ctypes.byref(comm), 1, None)
    call("ncclCommRegister", comm, memory, size(1 << 20), ctypes.byref(handle))
    call("ncclCommWindowRegister", comm, memory, size(1 << 20), ctypes.byref(window), 0)
    call("ncclAllReduce", memory, memory, size(1000), 7, 0, comm, None)
    call("ncclMemFree", memory, expect=5)  # registered
    # The default stream may still be at it; what comes after ncclCommFinalize is not.
    call("ncclCommFinalize", comm)
    call("ncclCommDeregister", comm, handle)
    call("ncclCommWindowDeregister", comm, window)
    call("ncclCommDestroy", comm)
    call("ncclMemFree", memory)
    call("ncclMemFree", memory, expect=4)  # freed already


if __name__ == "__main__":
    main()
