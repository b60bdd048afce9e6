"""The other ways in which torch's process groups may be called: one tensor for a list, and root, op or timeout for an options
object, as in group.broadcast(tensor, root=0)."""
import functools

import torch

FIELDS = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}


def overloaded(kind, n_tensors, order=("timeout",), nested=()):
    """A method that is written for lists and options.

    kind: the class of its options.  n_tensors: arguments before them.  order: what may stand in their place.
    nested: which arguments are lists of lists"""

    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments, **named):
            if len(arguments) == n_tensors + 1 and not named and type(arguments[n_tensors]) is kind:
                return method(self, *arguments)  # as torch itself calls
            return method(self, *normal(kind, n_tensors, order, nested, arguments, named))
        return call
    return decorate


def normal(kind, n_tensors, order, nested, arguments, named):
    options = named.pop("opts", None)
    tensors, rest = list(arguments[:n_tensors]), list(arguments[n_tensors:])
    tensors += [named.pop(name) for name in list(named) if name not in FIELDS]
    if len(tensors) != n_tensors:
        raise TypeError(f"tutti: {n_tensors} arguments of tensors are needed, and {len(tensors)} were given")
    if options is None and rest and hasattr(rest[0], "timeout"):
        options = rest.pop(0)
    if options is None:
        options = kind()
        for name, value in [*zip(order, rest), *named.items()]:
            if name not in order:
                raise TypeError(f"tutti: there is no argument {name} here")
            if value is not None:
                setattr(options, FIELDS[name], value)
    return [*(as_list(tensor, at in nested) for at, tensor in enumerate(tensors)), options]


def as_list(given, nested):
    """Lists stay; one tensor, or one list where lists of lists are due, becomes one of its own."""
    if isinstance(given, torch.Tensor):
        return [given]
    return [given] if nested and len(given) > 0 and isinstance(given[0], torch.Tensor) else given
