// What tensor-parallel layers have in common.
#pragma once

#include <memory>
#include <vector>

#include "src/parallel/group.hpp"
#include "src/parallel/loops.hpp"
#include "src/parallel/products.hpp"
#include "src/parallel/sender.hpp"
#include "src/parallel/tensor.hpp"
#include "tutti/parallel/tp.h"

struct tuttiTp {
  tuttiTp(std::shared_ptr<tutti::parallel::Device> of, tuttiComm_t comm)
      : device(std::move(of)), group(comm, *device), tokenGroup(nullptr, *device) {}
  std::shared_ptr<tutti::parallel::Device> device;  // first: ends after what lies in its memory
  tutti::parallel::Group group;
  tutti::parallel::Group tokenGroup;  // ranks with other tokens of the same sequences
  tuttiTpConfig_t config = TUTTI_TP_CONFIG_INITIALIZER;
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  std::unique_ptr<tutti::parallel::Sender> sender;  // with tiles

  bool invariant() const { return config.numerics == tuttiNumericsLayoutInvariant; }
  bool sequence() const { return config.sequenceParallel != 0 && group.size() > 1; }
  /// Leaves of a sum over `total` items in units; one in fast mode.
  std::vector<int64_t> leaves(int64_t total, int64_t unit) const;
  /// Leaves over the ranks of `tokenGroup`, [nRanks + 1]; one each in fast mode.
  std::vector<int64_t> tokenRuns() const;
  tutti::parallel::LeafRange tokenRun() const;
  /// This rank's leaves of a sum over tokens, as cuts of the `count` tokens of this tensor-parallel group.
  std::vector<int64_t> leavesOfTokens(int64_t count) const;
  /// Throws unless `count` tokens are what this rank of `tokenGroup` has of a sequence.
  void checkTokens(int64_t count) const;
  /// Leaves of each rank, [nRanks + 1].
  std::vector<int64_t> leafRuns() const;
  std::vector<int64_t> split(int64_t total, int64_t unit) const;
  /// This rank's tokens of `tokens`, or all of them without sequence parallelism.
  int64_t ownTokens(int64_t tokens) const;

  /// c (+)= op(a) op(b) by the kernel table or the device; in layout-invariant mode over leaves of k, given as cuts.
  void multiply(const tuttiMatmul_t& call, const std::vector<int64_t>& kLeaves) const;

  /// out [tokens here, columns] = the sum over ranks of products; `partial` writes rows [row0, row1) of what leaves
  /// `run` of this rank's contribute to `to`, whose row row0 comes first.  With sequence parallelism this rank keeps
  /// its tokens.
  template <class T, class Partial>
  void reduceProducts(int64_t tokens, int64_t columns, T* out, const Partial& partial);

  /// to += a sum over the tokens of all ranks of `tokenGroup`, of which `count` are here; partial(bounds, part) adds
  /// the sum over tokens [bounds[0], bounds.back()), cut into leaves at bounds, to the matrix `part`.
  template <class T, class Partial>
  void addOverTokens(int64_t count, tutti::parallel::Matrix<T> to, const Partial& partial);
};

namespace tutti::parallel {

/// Join column blocks: mine [rows, cuts of this rank] of all ranks to whole [rows, cuts[n]].
template <class T>
void gatherColumns(Group& group, Matrix<const T> mine, const int64_t* cuts, Matrix<T> whole);

/// sum[c] += the sum over rows of x[r][c], rows cut into leaves.
template <class T>
void addRowSums(Device& device, Matrix<const T> x, const std::vector<int64_t>& rowLeaves, T* sum);

}  // namespace tutti::parallel

template <class T, class Partial>
void tuttiTp::reduceProducts(int64_t tokens, int64_t columns, T* out, const Partial& partial) {
  using namespace tutti::parallel;
  std::vector<int64_t> slices = sequence() ? split(tokens, 1) : evenCuts(tokens, 1, group.size());
  if (invariant()) {
    for (int64_t& cut : slices) cut *= columns;
    const std::vector<int64_t> runs = leafRuns();
    const std::vector<LeafRange> nodes =
        subtreesOf(runs.back(), {runs[static_cast<size_t>(group.rank())], runs[static_cast<size_t>(group.rank()) + 1]});
    if (group.size() == 1) return partial(LeafRange{0, runs.back()}, 0, tokens, out);
    Array<T> sums(*device, nodes.size() * static_cast<size_t>(tokens * columns), Array<T>::Any);
    std::vector<const T*> parts;
    for (size_t i = 0; i < nodes.size(); ++i) {
      T* part = sums.data() + i * static_cast<size_t>(tokens * columns);
      partial(nodes[i], 0, tokens, part);
      parts.push_back(part);
    }
    if (sequence()) return group.treeReduceScatter(parts, out, runs.data(), slices.data());
    return group.treeAllReduce(parts, out, runs.data(), slices.data());
  }
  const LeafRange all{0, 1};
  if (sequence()) {
    for (int64_t& cut : slices) cut *= columns;
    Array<T> sum(*device, static_cast<size_t>(tokens * columns), Array<T>::Any);
    partial(all, 0, tokens, sum.data());
    return group.reduceScatter(sum.data(), out, slices.data(), dtypeOf<T>());
  }
  const int64_t tiles = sender == nullptr ? 1 : config.tiles;
  const std::vector<int64_t> rows = evenCuts(tokens, 1, static_cast<int>(tiles));
  const auto send = [this, columns](T* from, int64_t n) {
    group.allReduce(from, static_cast<size_t>(n * columns), dtypeOf<T>(), tuttiSum);
  };
  for (size_t t = 0; t + 1 < rows.size(); ++t) {
    T* to = out + rows[t] * columns;
    const int64_t n = rows[t + 1] - rows[t];
    partial(all, rows[t], rows[t + 1], to);
    if (sender == nullptr) {
      send(to, n);
    } else {
      sender->post([send, to, n] { send(to, n); });
    }
  }
  if (sender != nullptr) sender->waitForPosted();
}

template <class T, class Partial>
void tuttiTp::addOverTokens(int64_t count, tutti::parallel::Matrix<T> to, const Partial& partial) {
  using namespace tutti::parallel;
  const std::vector<int64_t> bounds = leavesOfTokens(count);
  if (tokenGroup.size() == 1) return partial(bounds, to);
  const size_t size = static_cast<size_t>(to.rows * to.columns);
  if (size == 0) return;
  Array<T> sum(*device, size);
  if (!invariant()) {
    partial(bounds, Matrix<T>{sum.data(), to.rows, to.columns, to.columns});
    tokenGroup.allReduce(sum.data(), size, dtypeOf<T>(), tuttiSum);
  } else {
    const LeafRange run = tokenRun();
    const std::vector<LeafRange> nodes = subtreesOf(config.leaves, run);
    Array<T> sums(*device, nodes.size() * size);
    std::vector<const T*> parts;
    for (const LeafRange& node : nodes) {
      T* part = sums.data() + parts.size() * size;
      const auto first = bounds.begin() + (node.begin - run.begin), last = first + (node.end - node.begin);
      partial(std::vector<int64_t>(first, last + 1), Matrix<T>{part, to.rows, to.columns, to.columns});
      parts.push_back(part);
    }
    const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(size), 1, tokenGroup.size());
    tokenGroup.treeAllReduce(parts, sum.data(), tokenRuns().data(), slices.data());
  }
  addMatrix(*device, to.data, to.stride, sum.data(), to.columns, to.rows, to.columns);
}
