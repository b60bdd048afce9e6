"""Tensors as the library's calls take them: contiguous memory, a count, a data type."""
import torch

from .._api import core

DTYPES = {
    torch.int8: core.tuttiInt8, torch.uint8: core.tuttiUint8, torch.int16: core.tuttiInt16, torch.int32: core.tuttiInt32,
    torch.int64: core.tuttiInt64, torch.float16: core.tuttiFloat16, torch.bfloat16: core.tuttiBfloat16, torch.float32: core.tuttiFloat32,
    torch.float64: core.tuttiFloat64, torch.bool: core.tuttiBool,
}
for _name, _code in (("uint16", core.tuttiUint16), ("uint32", core.tuttiUint32), ("uint64", core.tuttiUint64),
                     ("float8_e4m3fn", core.tuttiFloat8e4m3), ("float8_e5m2", core.tuttiFloat8e5m2)):
    if hasattr(torch, _name):
        DTYPES[getattr(torch, _name)] = _code


def check(tensor, name="tensor"):
    """Refuse what no call takes: another device's memory, and sparse layouts."""
    if not (tensor.is_cpu or tensor.is_cuda):
        raise ValueError(f"tutti: {name} is on {tensor.device}, and a process group of tutti takes CPU tensors and CUDA tensors")
    if tensor.layout is not torch.strided:
        raise ValueError(f"tutti: {name} has the layout {tensor.layout}; only all_reduce takes sparse tensors")


def buffer_of(tensor, name="tensor"):
    """The tensor itself where its memory is contiguous and means what it says, else a copy."""
    check(tensor, name)
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return tensor.resolve_conj().resolve_neg().contiguous()


def output_of(tensor, name="output"):
    """Memory that results of the tensor's shape can be written to: its own, or new."""
    check(tensor, name)
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def copy_back(pairs):
    """What is to be done when a call has ended: results to the tensors that they are for.  None: nothing."""
    pairs = [(to, source) for to, source in pairs if to is not source]
    if not pairs:
        return None

    def copy():
        with torch.no_grad():
            for to, source in pairs:
                to.copy_(source)
    return copy


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def same_dtype(first, second, what):
    if first.dtype != second.dtype:
        raise ValueError(f"tutti: {what}: output tensor must have the same type as input tensor, "
                         f"and they have {first.dtype} and {second.dtype}")


def rows_of(tensor, splits, n_ranks, what):
    """(bytes, displacement) of each rank's rows of dimension 0."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if splits:
        splits = list(splits)
        if len(splits) != n_ranks:
            raise ValueError(f"tutti: Number of tensor splits not equal to group size: {len(splits)} {what} splits for "
                             f"{n_ranks} ranks")
        if sum(splits) != rows:
            raise ValueError(f"tutti: Split sizes doesn't match total dim 0 size: {what} splits add up to {sum(splits)}, "
                             f"dimension 0 is {rows}")
    else:
        if rows % n_ranks:
            raise ValueError(f"tutti: Tensor's dim 0 does not divide equally across group size: {what} has {rows} rows, "
                             f"the group {n_ranks} ranks")
        splits = [rows // n_ranks] * n_ranks
    row = bytes_of(tensor) // rows if rows else 0
    return layout([count * row for count in splits])


def layout(sizes):
    """(sizes, displacements) of blocks that follow each other."""
    displacements, at = [], 0
    for size in sizes:
        displacements.append(at)
        at += size
    return sizes, displacements


def joined(tensors):
    """One flat tensor whose memory is that of all of them in order, or None."""
    first = tensors[0]
    at = first.data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != at or not tensor.is_contiguous() or tensor.dtype != first.dtype or tensor.is_conj() or tensor.is_neg():
            return None
        at += bytes_of(tensor)
    if at - first.data_ptr() > first.untyped_storage().nbytes() - first.storage_offset() * first.element_size():
        return None  # neighbours in memory, but not one allocation
    return torch.as_strided(first, (sum(tensor.numel() for tensor in tensors),), (1,))
