// Embedding and cross entropy over a vocabulary whose rows are cut over the ranks.
#include <algorithm>

#include "src/parallel/predict.hpp"
#include "src/parallel/tp.hpp"

using namespace tutti::parallel;

namespace tutti::parallel {
namespace {

/// Numbers that have been checked, where the device reads them.
class Ids {
 public:
  /// ids  in the host's memory: read at once.  On CUDA they may be in the device's: then they are fetched for the
  /// check,
  ///      which waits
  Ids(Device& device, const tuttiTensor_t* ids, int64_t vocabulary, const char* what) {
    require(ids != nullptr, what, " is NULL");
    const int kind = ids->device == kindOf(device) ? kindOf(device) : TUTTI_DEVICE_HOST;
    count_ = elementsOf(*ids);
    checkContiguous(ids, what, count_, tuttiInt32, kind);
    const size_t n = static_cast<size_t>(count_);
    const int32_t* host = static_cast<const int32_t*>(ids->data);
    std::vector<int32_t> fetched;
    if (kind != TUTTI_DEVICE_HOST) {
      fetched.resize(n);
      getBytes(device, fetched.data(), host, n * sizeof(int32_t));
      host = fetched.data();
    }
    for (size_t t = 0; t < n; ++t) {
      require(host[t] >= 0 && host[t] < vocabulary, what, "[", t, "] is ", host[t], ", the vocabulary has ",
              vocabulary);
    }
    data_ = static_cast<const int32_t*>(ids->data);
    if (kind == kindOf(device)) return;
    copy_ = Array<int32_t>(device, n, Array<int32_t>::Any);
    setInts(device, copy_.data(), host, n);
    data_ = copy_.data();
  }
  const int32_t* data() const { return data_; }
  int64_t count() const { return count_; }

 private:
  int64_t count_ = 0;
  const int32_t* data_ = nullptr;
  Array<int32_t> copy_;
};

std::vector<int64_t> slicesOfTokens(const tuttiTp& tp, int64_t tokens, int64_t width) {
  std::vector<int64_t> slices = tp.split(tokens, 1);
  for (int64_t& cut : slices) cut *= width;
  return slices;
}

/// out is a sum of which one term is not zero: its bits do not depend on the order.
template <class T>
void embed(tuttiTp& tp, const int64_t* cuts, const Ids& ids, const tuttiTensor_t& table, T* out) {
  const int rank = tp.group.rank();
  const int64_t width = table.shape[1];
  Array<T> room;
  T* to = out;
  if (tp.sequence()) {
    room = Array<T>(*tp.device, static_cast<size_t>(ids.count() * width), Array<T>::Any);
    to = room.data();
  }
  launch<T, Kernel::TakeIdRows>(*tp.device, {table.data, to, ids.data(), nullptr, ids.count(), width, table.strides[0],
                                             cuts[rank], cuts[rank + 1]});
  if (tp.sequence()) {
    tp.group.reduceScatter(to, out, slicesOfTokens(tp, ids.count(), width).data(), dtypeOf<T>());
  } else {
    tp.group.allReduce(out, static_cast<size_t>(ids.count() * width), dtypeOf<T>(), tuttiSum);
  }
}

template <class T>
void embedBackward(tuttiTp& tp, const int64_t* cuts, const Ids& ids, const tuttiTensor_t& dout,
                   const tuttiTensor_t& dtable) {
  Device& device = *tp.device;
  const int rank = tp.group.rank();
  const int64_t width = dtable.shape[1];
  T* from = static_cast<T*>(dout.data);
  Array<T> room;
  if (tp.sequence()) {
    const std::vector<int64_t> slices = slicesOfTokens(tp, ids.count(), width);
    room = Array<T>(device, static_cast<size_t>(ids.count() * width), Array<T>::Any);
    copyBytes(device, room.data() + slices[static_cast<size_t>(rank)], from,
              static_cast<size_t>(elementsOf(dout)) * sizeof(T));
    tp.group.allGather(room.data(), slices.data(), dtypeOf<T>());
    from = room.data();
  }
  Array<int32_t> chain;
  if (!device.onHost()) {
    chain = Array<int32_t>(device, 2 * static_cast<size_t>(ids.count()), Array<int32_t>::Any);
  }
  const auto add = [&](int64_t begin, int64_t end, Matrix<T> to) {
    const kernels::IdRowsCall call{to.data,      from + begin * width, ids.data() + begin,
                                   chain.data(), end - begin,          width,
                                   to.stride,    cuts[rank],           cuts[rank + 1]};
    if (!device.onHost()) launch<T, Kernel::ChainIds>(device, call);
    launch<T, Kernel::AddIdRows>(device, call);
  };
  tp.addOverTokens(ids.count(), matrixOf<T>(dtable), [&](const std::vector<int64_t>& bounds, Matrix<T> table) {
    if (bounds.size() == 2) return add(bounds[0], bounds[1], table);
    const size_t count = static_cast<size_t>(table.rows * width), nLeaves = bounds.size() - 1;
    Array<T> leaves(device, nLeaves * count);
    for (size_t l = 0; l < nLeaves; ++l) {
      add(bounds[l], bounds[l + 1], {leaves.data() + l * count, table.rows, width, width});
    }
    treeSum(device, leaves.data(), static_cast<int64_t>(nLeaves), count);
    addMatrix(device, table.data, table.stride, leaves.data(), width, table.rows, width);
  });
}

/// call.sums = the sums of exponentials over all ranks; in layout-invariant mode by leaves of the vocabulary.
template <class T>
void sumOverVocabulary(tuttiTp& tp, const int64_t* cuts, const kernels::LossCall& call) {
  Device& device = *tp.device;
  const int64_t tokens = call.rows;
  T* sums = static_cast<T*>(call.sums);
  const auto overColumns = [&](int64_t begin, int64_t end, T* to) {
    if (tokens == 0) return;
    kernels::LossCall part = call;
    part.logits = static_cast<const T*>(call.logits) + begin;
    part.columns = end - begin;
    part.sums = to;
    launch<T, Kernel::SumExponentials>(device, part);
  };
  const size_t rank = static_cast<size_t>(tp.group.rank());
  if (!tp.invariant()) {
    overColumns(0, call.columns, sums);
    return tp.group.allReduce(sums, static_cast<size_t>(tokens), dtypeOf<T>(), tuttiSum);
  }
  const std::vector<int64_t> bounds = tp.leaves(cuts[tp.group.size()], 1), runs = tp.leafRuns();
  Array<T> leaves(device, static_cast<size_t>((runs[rank + 1] - runs[rank]) * tokens), Array<T>::Any);
  for (int64_t l = runs[rank]; l < runs[rank + 1]; ++l) {
    overColumns(bounds[static_cast<size_t>(l)] - cuts[rank], bounds[static_cast<size_t>(l) + 1] - cuts[rank],
                leaves.data() + (l - runs[rank]) * tokens);
  }
  std::vector<const T*> parts;
  for (const LeafRange& node : subtreesOf(runs.back(), {runs[rank], runs[rank + 1]})) {
    T* first = leaves.data() + (node.begin - runs[rank]) * tokens;
    treeSum(device, first, node.end - node.begin, static_cast<size_t>(tokens));
    parts.push_back(first);
  }
  const std::vector<int64_t> slices = evenCuts(tokens, 1, tp.group.size());
  tp.group.treeAllReduce(parts, sums, runs.data(), slices.data());
}

template <class T>
void crossEntropy(tuttiTp& tp, const int64_t* cuts, Matrix<T> logits, const Ids& targets, T* loss,
                  const tuttiTensor_t* dlogits, double scale) {
  const size_t tokens = static_cast<size_t>(logits.rows);
  Array<T> each(*tp.device, 3 * tokens, Array<T>::Any);
  T *most = each.data(), *at = most + tokens, *sums = at + tokens;
  kernels::LossCall call{nullptr, logits.data, targets.data(), most,          at, sums,
                         loss,    logits.rows, logits.columns, logits.stride, 0,  cuts[tp.group.rank()],
                         scale};
  launch<T, Kernel::LargestOfRows>(*tp.device, call);
  tp.group.allReduce(most, tokens, dtypeOf<T>(), tuttiMax);
  tp.group.allReduce(at, tokens, dtypeOf<T>(), tuttiSum);  // one rank has it, the others add 0
  sumOverVocabulary<T>(tp, cuts, call);
  launch<T, Kernel::LossOfRows>(*tp.device, call);
  if (dlogits == nullptr) return;
  call.gradient = dlogits->data;
  call.gradientStride = dlogits->strides[0];
  launch<T, Kernel::LossGradient>(*tp.device, call);
}

int64_t checkedVocabulary(const tuttiTp* tp, const int64_t* cuts) {
  require(tp != nullptr && cuts != nullptr, "tp or cuts is NULL");
  const int64_t vocabulary = cuts[tp->group.size()];
  checkCuts(cuts, tp->group.size(), vocabulary, "cuts");
  if (tp->invariant()) {
    const std::vector<int64_t> own = tp->split(vocabulary, 1);
    require(std::equal(own.begin(), own.end(), cuts), "layout-invariant sums are cut as tuttiTpSplit does");
  }
  return vocabulary;
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiVocabEmbedding(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* ids,
                                  const tuttiTensor_t* table, const tuttiTensor_t* out) {
  return guarded([&] {
    const int64_t vocabulary = checkedVocabulary(tp, cuts);
    const Ids found(*tp->device, ids, vocabulary, "ids");
    tp->checkTokens(found.count());
    const int kind = kindOf(*tp->device);
    require(table != nullptr && table->nDims == 2, "the table is a matrix");
    const int rank = tp->group.rank();
    checkMatrix(table, "table", cuts[rank + 1] - cuts[rank], table->shape[1], table->dtype, kind);
    checkContiguous(out, "out", tp->ownTokens(found.count()) * table->shape[1], table->dtype, kind);
    withType(table->dtype, [&](auto zero) {
      embed<decltype(zero)>(*tp, cuts, found, *table, static_cast<decltype(zero)*>(out->data));
    });
  });
}

tuttiResult_t tuttiVocabEmbeddingBackward(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* ids,
                                          const tuttiTensor_t* dout, const tuttiTensor_t* dtable) {
  return guarded([&] {
    const int64_t vocabulary = checkedVocabulary(tp, cuts);
    const Ids found(*tp->device, ids, vocabulary, "ids");
    tp->checkTokens(found.count());
    const int kind = kindOf(*tp->device);
    require(dtable != nullptr && dtable->nDims == 2, "the gradient of the table is a matrix");
    const int rank = tp->group.rank();
    checkMatrix(dtable, "dtable", cuts[rank + 1] - cuts[rank], dtable->shape[1], dtable->dtype, kind);
    checkContiguous(dout, "dout", tp->ownTokens(found.count()) * dtable->shape[1], dtable->dtype, kind);
    withType(dtable->dtype, [&](auto zero) { embedBackward<decltype(zero)>(*tp, cuts, found, *dout, *dtable); });
  });
}

tuttiResult_t tuttiVocabCrossEntropy(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* logits,
                                     const tuttiTensor_t* targets, const tuttiTensor_t* loss,
                                     const tuttiTensor_t* dlogits, double scale) {
  return guarded([&] {
    const int64_t vocabulary = checkedVocabulary(tp, cuts);
    const Ids found(*tp->device, targets, vocabulary, "targets");
    tp->checkTokens(found.count());
    const int kind = kindOf(*tp->device);
    require(logits != nullptr, "logits is NULL");
    const int rank = tp->group.rank();
    const int64_t here = cuts[rank + 1] - cuts[rank];
    checkMatrix(logits, "logits", found.count(), here, logits->dtype, kind);
    checkContiguous(loss, "loss", found.count(), logits->dtype, kind);
    if (dlogits != nullptr) checkMatrix(dlogits, "dlogits", found.count(), here, logits->dtype, kind);
    withType(logits->dtype, [&](auto zero) {
      using T = decltype(zero);
      crossEntropy<T>(*tp, cuts, matrixOf<T>(*logits), found, static_cast<T*>(loss->data), dlogits, scale);
    });
  });
}

tuttiResult_t tuttiVocabPredict(tuttiTp_t tp, int64_t tokens, int64_t width, tuttiDataType_t dtype, int passes,
                                tuttiTraffic_t* traffic) {
  return guarded([&] {
    require(tp != nullptr && traffic != nullptr && traffic->size == sizeof(tuttiTraffic_t),
            "tp is NULL, or traffic does not begin from TUTTI_TRAFFIC_INITIALIZER");
    const Group& g = tp->group;
    const size_t me = static_cast<size_t>(g.rank());
    const uint64_t whole = static_cast<uint64_t>(tokens * width) * bytesOf(dtype);
    const uint64_t column = static_cast<uint64_t>(tokens) * bytesOf(dtype);
    if (passes & 1) predictSum(*traffic, g, whole, 0, false, 1, !tp->sequence());
    if ((passes & 2) && tp->sequence()) predictGather(*traffic, g, whole);
    if (passes & 4) {
      const std::vector<int64_t> runs = tp->leafRuns(), slices = evenCuts(tokens, 1, g.size());
      const size_t parts = subtreesOf(runs.back(), {runs[me], runs[me + 1]}).size();
      predictSum(*traffic, g, column, 0, false, 1, true);  // the largest logit
      predictSum(*traffic, g, column, 0, false, 1, true);  // the target's
      predictSum(*traffic, g, column, static_cast<uint64_t>(slices[me + 1] - slices[me]) * bytesOf(dtype),
                 tp->invariant(), parts, true);
    }
  });
}
