"""Reduction operators, and what torch lets tensors of complex numbers do."""
import torch
from torch.distributed import ReduceOp

from .._api import core
from .tensors import DTYPES

OPERATORS = {ReduceOp.SUM: core.tuttiSum, ReduceOp.PRODUCT: core.tuttiProd, ReduceOp.MIN: core.tuttiMin, ReduceOp.MAX: core.tuttiMax,
             ReduceOp.BAND: core.tuttiBand, ReduceOp.BOR: core.tuttiBor, ReduceOp.BXOR: core.tuttiBxor, ReduceOp.AVG: core.tuttiAvg}
BITWISE = (core.tuttiBand, core.tuttiBor, core.tuttiBxor)
NAMES = {operator: str(operator).rsplit(".", 1)[-1] for operator in OPERATORS}
LINEAR = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


def kind_of(reduce_op):
    """The enumeration's value: options hold an object around it."""
    return reduce_op.op if hasattr(reduce_op, "op") else reduce_op


def factor_of(reduce_op):
    """What PREMUL_SUM multiplies this rank's input by."""
    state = reduce_op.__getstate__()
    if len(state) < 2 or state[1] is None:
        raise ValueError("tutti: PREMUL_SUM without a factor; make it with torch.distributed._make_nccl_premul_sum")
    return state[1]


def numbers(tensor, reduce_op):
    """The tensor as numbers that the library adds: complex ones as pairs of real ones."""
    if not tensor.is_complex():
        return tensor
    if kind_of(reduce_op) not in LINEAR:
        raise ValueError(f"tutti: complex tensors can be added and averaged, and {reduce_op} is neither")
    return torch.view_as_real(tensor.resolve_conj())


def scaled(tensor, reduce_op):
    """This rank's input: PREMUL_SUM is a sum of products."""
    return tensor * factor_of(reduce_op) if kind_of(reduce_op) == ReduceOp.PREMUL_SUM else tensor


def dtype_and_op(tensor, reduce_op):
    """What the library calls them.  Raises where it has no such reduction."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"tutti: Invalid scalar type: {tensor.dtype} cannot be reduced; the types are "
                         f"{', '.join(str(known) for known in DTYPES)} and complex")
    kind = kind_of(reduce_op)
    operator = core.tuttiSum if kind == ReduceOp.PREMUL_SUM else OPERATORS.get(kind)
    if operator is None:
        raise ValueError(f"tutti: there is no reduction {reduce_op}")
    if operator in BITWISE and (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise ValueError(f"tutti: Cannot use ReduceOp.{NAMES[kind]} with non-integral dtype {tensor.dtype}")
    return dtype, operator
