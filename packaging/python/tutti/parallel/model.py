"""Parts of a model on several ranks: tensor, sequence and expert parallelism; docs/parallel/tp.md, sp.md, ep.md."""
import ctypes

from .._api import parallel as api
from .._library import make
from ._base import Handle, Traffic, address, dtype_code, handle_of, integers, options, reference, split_even

REGIONS = {"copy": api.tuttiRegionCopy, "reduce": api.tuttiRegionReduce, "scatter": api.tuttiRegionScatter,
           "gather": api.tuttiRegionGather, "gather_tokens": api.tuttiRegionGatherTokens,
           "reduce_scatter": api.tuttiRegionReduceScatter}


class Tp(Handle):
    """Matrices cut over the ranks of a group.  Options of tuttiTpConfig_t: sequence_parallel, tiles, ..."""
    _destroy = "TpDestroy"

    def __init__(self, comm=None, **given):
        self.ranks = 1 if comm is None else comm.size
        config = options(api.tuttiTpConfig_t, given)
        self._make("TpCreate", handle_of(comm), ctypes.byref(config), keep=(comm, config, given))

    def split(self, total, unit=1):
        """Where `total` items are cut: nRanks + 1 bounds."""
        return self._cuts("TpSplit", self.ranks + 1, total, unit)

    def region(self, kind, x, y, backward=False, dim=0, cuts=None):
        """x to y: "copy", "reduce", "scatter", "gather", "gather_tokens", "reduce_scatter", or backward the conjugate."""
        self._call("TpRegion", REGIONS[kind], int(backward), reference(x), dim, integers(cuts), reference(y))

    def traffic(self, reset=False):
        made = make(api.tuttiTraffic_t)
        self._call("TpTraffic", ctypes.byref(made), int(reset))
        return Traffic(made)

    def column_linear(self, inputs, outputs, **given):
        """y = x w^T + bias with w cut by outputs."""
        return Linear(self, "ColumnLinearCreate", inputs, outputs, given)

    def row_linear(self, inputs, outputs, **given):
        """y = x w^T + bias with w cut by inputs."""
        return Linear(self, "RowLinearCreate", inputs, outputs, given)

    def embedding(self, cuts, ids, table, out):
        """out[t] = table[ids[t]]; this rank holds rows [cuts[rank], cuts[rank + 1])."""
        self._call("VocabEmbedding", integers(cuts), reference(ids, api.tuttiInt32), reference(table), reference(out))

    def embedding_backward(self, cuts, ids, dout, dtable):
        self._call("VocabEmbeddingBackward", integers(cuts), reference(ids, api.tuttiInt32), reference(dout), reference(dtable))

    def cross_entropy(self, cuts, logits, targets, loss, dlogits=None, scale=1.0):
        """loss[t] = -log softmax(logits[t])[targets[t]] over a vocabulary that is cut."""
        self._call("VocabCrossEntropy", integers(cuts), reference(logits), reference(targets, api.tuttiInt32), reference(loss),
                   reference(dlogits), scale)


class Linear(Handle):
    """A linear layer of a Tp; its weight [outputs, inputs], as this rank holds it, is the caller's."""
    _destroy = "LinearDestroy"

    def __init__(self, tp, create, inputs, outputs, given):
        self.ranks = tp.ranks
        config = options(api.tuttiLinearConfig_t, {"inputs": inputs, "outputs": outputs, **given})
        self._make(create, tp.handle, ctypes.byref(config), keep=(tp, config))

    def cuts(self):
        return self._cuts("LinearCuts", self.ranks + 1)

    def forward(self, tokens, x, w, y, bias=None):
        self._call("LinearForward", tokens, reference(x), reference(w), reference(bias), reference(y))

    def backward(self, tokens, x, w, dy, dx=None, dw=None, dbias=None):
        """dx is written; dw and dbias are added to."""
        self._call("LinearBackward", tokens, reference(x), reference(w), reference(dy), reference(dx), reference(dw),
                   reference(dbias))


class Sp(Handle):
    """Attention over sequences whose tokens lie on different ranks: `ulysses` over heads, `ring` over tokens."""
    _destroy = "SpDestroy"

    def __init__(self, sequence, heads, head_dim, ulysses=None, ring=None, kv_heads=None, **given):
        config = options(api.tuttiSpConfig_t, {"sequence": sequence, "heads": heads, "head_dim": head_dim,
                                               "kv_heads": kv_heads or heads, **given})
        self._make("SpCreate", handle_of(ulysses), handle_of(ring), ctypes.byref(config), keep=(ulysses, ring, config))

    def tokens(self):
        """Positions in the sequence of this rank's tokens, in the order of rows."""
        count = ctypes.c_int64()
        self._call("SpTokens", ctypes.byref(count), None)
        positions = (ctypes.c_int64 * count.value)()
        self._call("SpTokens", ctypes.byref(count), positions)
        return list(positions)

    def saved(self):
        """Elements of what forward keeps for backward."""
        count = ctypes.c_size_t()
        self._call("SpSaved", ctypes.byref(count))
        return count.value

    def forward(self, q, k, v, out, saved):
        self._call("SpForward", reference(q), reference(k), reference(v), reference(out), address(saved))

    def backward(self, saved, dout, dq, dk, dv):
        self._call("SpBackward", address(saved), reference(dout), reference(dq), reference(dk), reference(dv))

    def traffic(self, dtype="float32"):
        return self._traffic("SpTraffic", dtype_code(dtype))


class Ep(Handle):
    """Tokens travel to the ranks that have their experts, and back."""
    _destroy = "EpDestroy"

    def __init__(self, comm, experts, choices=1, **given):
        self.ranks = 1 if comm is None else comm.size
        owners = given.get("owners") or split_even(experts, self.ranks)
        rank = 0 if comm is None else comm.rank
        self.here = owners[rank + 1] - owners[rank]
        config = options(api.tuttiEpConfig_t, {"experts": experts, "choices": choices, **given})
        self._make("EpCreate", handle_of(comm), ctypes.byref(config), keep=(comm, config))

    def route(self, ids):
        """ids [tokens, choices] int32; gives how many rows come here, and how many of them are each expert's."""
        received, each = ctypes.c_int64(), (ctypes.c_int64 * max(1, self.here + 1))()
        self._call("EpRoute", reference(ids, api.tuttiInt32), ctypes.byref(received), each)
        return received.value, list(each[:self.here])

    def dropped(self):
        count = ctypes.c_int64()
        self._call("EpDropped", ctypes.byref(count))
        return count.value

    def dispatch(self, x, y):
        self._call("EpDispatch", reference(x), reference(y))

    def dispatch_backward(self, dy, dx):
        self._call("EpDispatchBackward", reference(dy), reference(dx))

    def combine(self, y, weights, out, kept):
        self._call("EpCombine", reference(y), reference(weights), reference(out), address(kept))

    def combine_backward(self, dout, weights, kept, dy, dweights):
        self._call("EpCombineBackward", reference(dout), reference(weights), address(kept), reference(dy), reference(dweights))

    def balance_loss(self, probabilities, coefficient, all_ranks=False, dprobabilities=None):
        loss = ctypes.c_double()
        self._call("EpBalanceLoss", reference(probabilities), coefficient, int(all_ranks), ctypes.byref(loss),
                   reference(dprobabilities))
        return loss.value


__all__ = ["Ep", "Linear", "Sp", "Tp"]
