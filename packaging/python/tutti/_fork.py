"""fork(): a child has none of the library's threads, so what its parent made is of no use to it, and says so.

What has a `handle` is kept weakly here and loses it in the child; so calls need not look at the process they are in."""
import os
import weakref

from .errors import InvalidArgument, InvalidUsage

_objects = weakref.WeakSet()


def track(thing):
    _objects.add(thing)


def _in_child():
    for thing in list(_objects):
        if thing.handle:
            thing.handle = 0
            thing.forked = True


os.register_at_fork(after_in_child=_in_child)


def alive(thing):
    """The handle of something that lives; an exception for what is destroyed or comes from before a fork."""
    if thing.handle:
        return thing.handle
    name = type(thing).__name__
    if getattr(thing, "forked", False):
        raise InvalidUsage(f"this {name} was made before the process was forked, and a child has none of its threads: make "
                           "one in the child, or start workers by the method 'spawn' or 'forkserver'")
    raise InvalidArgument(f"this {name} is destroyed")
