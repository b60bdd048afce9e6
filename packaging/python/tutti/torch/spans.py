"""Operations as torch shows them, from the call to its end: spans in its profiler, entries in the flight record."""
import concurrent.futures
import os

import torch

_enabled = torch._C._autograd._profiler_enabled
_enter = getattr(torch.autograd, "_record_function_with_args_enter", None)
_exit = getattr(torch.autograd, "_record_function_with_args_exit", None)
_enders = {}  # by process: a forked one has none of its parent's threads


def profiled():
    return _enter is not None and _enabled()


def begin(name, tensors, entry=None):
    """(the profiler's span, or None where nobody profiles; the entry)"""
    if not profiled():
        return (None, entry) if entry is not None else None
    return _enter(name, *tensors), entry


def end(span, error=None):
    """Ended by a thread of its own: the profiler takes a span for asynchronous, as these are, if another thread ends it."""
    if span is None:
        return
    profiled, entry = span
    if entry is not None:
        entry.end(error)
    if profiled is None:
        return
    process = os.getpid()
    if process not in _enders:
        _enders[process] = concurrent.futures.ThreadPoolExecutor(1, "tutti spans")
    _enders[process].submit(_exit, profiled).result()
