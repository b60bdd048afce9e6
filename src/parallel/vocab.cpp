// Embedding and cross entropy over a vocabulary whose rows are cut over the ranks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/parallel/predict.hpp"
#include "src/parallel/tp.hpp"

using namespace tutti::parallel;

namespace tutti::parallel {
namespace {

struct Ids {
  const int32_t* data;
  int64_t count;
};

Ids checkedIds(const tuttiTensor_t* ids, int64_t vocabulary, const char* what) {
  require(ids != nullptr, what, " is NULL");
  checkContiguous(ids, what, elementsOf(*ids), tuttiInt32);
  const Ids found{static_cast<const int32_t*>(ids->data), elementsOf(*ids)};
  for (int64_t t = 0; t < found.count; ++t) {
    require(found.data[t] >= 0 && found.data[t] < vocabulary, what, "[", t, "] is ", found.data[t],
            ", the vocabulary has ", vocabulary);
  }
  return found;
}

/// out is a sum of which one term is not zero: its bits do not depend on the order.
template <class T>
void embed(tuttiTp& tp, const int64_t* cuts, Ids ids, const tuttiTensor_t& table, T* out) {
  const int rank = tp.group.rank();
  const int64_t width = table.shape[1];
  std::vector<T> room;
  T* to = out;
  if (tp.sequence()) {
    room.resize(static_cast<size_t>(ids.count * width));
    to = room.data();
  }
  for (int64_t t = 0; t < ids.count; ++t) {
    if (ids.data[t] >= cuts[rank] && ids.data[t] < cuts[rank + 1]) {
      const T* row = matrixOf<T>(table).row(ids.data[t] - cuts[rank]);
      std::copy(row, row + width, to + t * width);
    } else {
      std::fill(to + t * width, to + (t + 1) * width, T(0));
    }
  }
  if (tp.sequence()) {
    std::vector<int64_t> slices = tp.split(ids.count, 1);
    for (int64_t& cut : slices) cut *= width;
    tp.group.reduceScatter(to, out, slices.data(), dtypeOf<T>());
  } else {
    tp.group.allReduce(out, static_cast<size_t>(ids.count * width), dtypeOf<T>(), tuttiSum);
  }
}

template <class T>
void embedBackward(tuttiTp& tp, const int64_t* cuts, Ids ids, const tuttiTensor_t& dout, const tuttiTensor_t& dtable) {
  const int rank = tp.group.rank();
  const int64_t width = dtable.shape[1];
  const T* from = static_cast<const T*>(dout.data);
  std::vector<T> room;
  if (tp.sequence()) {
    std::vector<int64_t> slices = tp.split(ids.count, 1);
    for (int64_t& cut : slices) cut *= width;
    room.resize(static_cast<size_t>(ids.count * width));
    std::copy(from, from + elementsOf(dout), room.data() + slices[static_cast<size_t>(rank)]);
    tp.group.allGather(room.data(), slices.data(), dtypeOf<T>());
    from = room.data();
  }
  const auto add = [&](int64_t begin, int64_t end, Matrix<T> to) {
    for (int64_t t = begin; t < end; ++t) {
      if (ids.data[t] < cuts[rank] || ids.data[t] >= cuts[rank + 1]) continue;
      addInto(to.row(ids.data[t] - cuts[rank]), from + t * width, static_cast<size_t>(width));
    }
  };
  const std::vector<int64_t> bounds = tp.leavesOfTokens(ids.count);
  const Matrix<T> table = matrixOf<T>(dtable);
  if (bounds.size() == 2) return add(0, ids.count, table);
  // Sums over tokens, of which other ranks may have more: by leaves.
  const size_t count = static_cast<size_t>(table.rows * width), nLeaves = bounds.size() - 1;
  std::vector<T> leaves(nLeaves * count);
  for (size_t l = 0; l < nLeaves; ++l) {
    add(bounds[l], bounds[l + 1], {leaves.data() + l * count, table.rows, width, width});
  }
  treeSum(leaves.data(), static_cast<int64_t>(nLeaves), count);
  for (int64_t r = 0; r < table.rows; ++r) {
    addInto(table.row(r), leaves.data() + r * width, static_cast<size_t>(width));
  }
}

/// sums[t] = the sum of exponentials of row t over all ranks; in layout-invariant mode by leaves of the vocabulary.
template <class T>
void sumExponentials(tuttiTp& tp, const int64_t* cuts, Matrix<T> logits, const std::vector<T>& most,
                     std::vector<T>& sums) {
  const int64_t tokens = logits.rows;
  const auto overColumns = [&](int64_t begin, int64_t end, T* to) {
    for (int64_t t = 0; t < tokens; ++t) {
      to[t] = 0;
      for (int64_t j = begin; j < end; ++j) to[t] += std::exp(logits.row(t)[j] - most[static_cast<size_t>(t)]);
    }
  };
  const size_t rank = static_cast<size_t>(tp.group.rank());
  if (!tp.invariant()) {
    overColumns(0, logits.columns, sums.data());
    return tp.group.allReduce(sums.data(), sums.size(), dtypeOf<T>(), tuttiSum);
  }
  const std::vector<int64_t> bounds = tp.leaves(cuts[tp.group.size()], 1), runs = tp.leafRuns();
  std::vector<T> leaves(static_cast<size_t>((runs[rank + 1] - runs[rank]) * tokens));
  for (int64_t l = runs[rank]; l < runs[rank + 1]; ++l) {
    overColumns(bounds[static_cast<size_t>(l)] - cuts[rank], bounds[static_cast<size_t>(l) + 1] - cuts[rank],
                leaves.data() + (l - runs[rank]) * tokens);
  }
  std::vector<const T*> parts;
  for (const LeafRange& node : subtreesOf(runs.back(), {runs[rank], runs[rank + 1]})) {
    T* first = leaves.data() + (node.begin - runs[rank]) * tokens;
    treeSum(first, node.end - node.begin, static_cast<size_t>(tokens));
    parts.push_back(first);
  }
  const std::vector<int64_t> slices = evenCuts(tokens, 1, tp.group.size());
  tp.group.treeAllReduce(parts, sums.data(), runs.data(), slices.data());
}

template <class T>
void crossEntropy(tuttiTp& tp, const int64_t* cuts, Matrix<T> logits, Ids targets, T* loss,
                  const tuttiTensor_t* dlogits, T scale) {
  const int rank = tp.group.rank();
  const size_t tokens = static_cast<size_t>(logits.rows);
  std::vector<T> most(tokens, -std::numeric_limits<T>::infinity()), at(tokens, 0), sums(tokens);
  for (size_t t = 0; t < tokens; ++t) {
    const T* row = logits.row(static_cast<int64_t>(t));
    for (int64_t j = 0; j < logits.columns; ++j) most[t] = std::max(most[t], row[j]);
    const int64_t target = targets.data[t] - cuts[rank];
    if (target >= 0 && target < logits.columns) at[t] = row[target];
  }
  tp.group.allReduce(most.data(), tokens, dtypeOf<T>(), tuttiMax);
  tp.group.allReduce(at.data(), tokens, dtypeOf<T>(), tuttiSum);  // one rank has it, the others add 0
  sumExponentials(tp, cuts, logits, most, sums);
  for (size_t t = 0; t < tokens; ++t) loss[t] = std::log(sums[t]) + most[t] - at[t];
  if (dlogits == nullptr) return;
  for (size_t t = 0; t < tokens; ++t) {
    const T* row = logits.row(static_cast<int64_t>(t));
    T* to = matrixOf<T>(*dlogits).row(static_cast<int64_t>(t));
    for (int64_t j = 0; j < logits.columns; ++j) to[j] = std::exp(row[j] - most[t]) / sums[t] * scale;
    const int64_t target = targets.data[t] - cuts[rank];
    if (target >= 0 && target < logits.columns) to[target] -= scale;
  }
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
    const Ids found = checkedIds(ids, checkedVocabulary(tp, cuts), "ids");
    require(table != nullptr && table->nDims == 2, "the table is a matrix");
    tp->requireHost("the vocabulary");
    const int rank = tp->group.rank();
    checkMatrix(table, "table", cuts[rank + 1] - cuts[rank], table->shape[1], table->dtype);
    checkContiguous(out, "out", tp->ownTokens(found.count) * table->shape[1], table->dtype);
    withType(table->dtype, [&](auto zero) {
      embed<decltype(zero)>(*tp, cuts, found, *table, static_cast<decltype(zero)*>(out->data));
    });
  });
}

tuttiResult_t tuttiVocabEmbeddingBackward(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* ids,
                                          const tuttiTensor_t* dout, const tuttiTensor_t* dtable) {
  return guarded([&] {
    const Ids found = checkedIds(ids, checkedVocabulary(tp, cuts), "ids");
    require(dtable != nullptr && dtable->nDims == 2, "the gradient of the table is a matrix");
    tp->requireHost("the vocabulary");
    const int rank = tp->group.rank();
    checkMatrix(dtable, "dtable", cuts[rank + 1] - cuts[rank], dtable->shape[1], dtable->dtype);
    checkContiguous(dout, "dout", tp->ownTokens(found.count) * dtable->shape[1], dtable->dtype);
    withType(dtable->dtype, [&](auto zero) { embedBackward<decltype(zero)>(*tp, cuts, found, *dout, *dtable); });
  });
}

tuttiResult_t tuttiVocabCrossEntropy(tuttiTp_t tp, const int64_t* cuts, const tuttiTensor_t* logits,
                                     const tuttiTensor_t* targets, const tuttiTensor_t* loss,
                                     const tuttiTensor_t* dlogits, double scale) {
  return guarded([&] {
    const Ids found = checkedIds(targets, checkedVocabulary(tp, cuts), "targets");
    require(logits != nullptr, "logits is NULL");
    tp->requireHost("the vocabulary");
    const int rank = tp->group.rank();
    const int64_t here = cuts[rank + 1] - cuts[rank];
    checkMatrix(logits, "logits", found.count, here, logits->dtype);
    checkContiguous(loss, "loss", found.count, logits->dtype);
    if (dlogits != nullptr) checkMatrix(dlogits, "dlogits", found.count, here, logits->dtype);
    withType(logits->dtype, [&](auto zero) {
      using T = decltype(zero);
      crossEntropy<T>(*tp, cuts, matrixOf<T>(*logits), found, static_cast<T*>(loss->data), dlogits,
                      static_cast<T>(scale));
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
