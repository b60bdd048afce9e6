// C entry points of sums.h.
#include "tutti/parallel/sums.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

/// Sums of this rank's subtrees over its leaves [mine][count].
template <class T>
std::vector<std::vector<T>> subtreeSums(const T* leaves, size_t count, int64_t nLeaves, LeafRange run) {
  std::vector<std::vector<T>> sums;
  for (const LeafRange& node : subtreesOf(nLeaves, run)) {
    const T* first = leaves + static_cast<size_t>(node.begin - run.begin) * count;
    std::vector<T> copy(first, first + static_cast<size_t>(node.end - node.begin) * count);
    treeSum(copy.data(), node.end - node.begin, count);
    sums.push_back(std::move(copy));
  }
  return sums;
}

void reduceLeaves(const void* leaves, void* out, size_t count, tuttiDataType_t dtype, const int64_t* leafCuts,
                  const int64_t* sliceCuts, tuttiComm_t comm, bool all, tuttiTraffic_t* traffic = nullptr) {
  Group group(comm);
  require(leafCuts != nullptr && leafCuts[group.size()] >= 1, "a tree has at least one leaf");
  checkCuts(leafCuts, group.size(), leafCuts[group.size()], "leafCuts");
  checkCuts(sliceCuts, group.size(), static_cast<int64_t>(count), "sliceCuts");
  const LeafRange run{leafCuts[group.rank()], leafCuts[group.rank() + 1]};
  require(count == 0 || run.begin == run.end || leaves != nullptr, "leaves is NULL");
  withType(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto sums = subtreeSums(static_cast<const T*>(leaves), count, leafCuts[group.size()], run);
    std::vector<const T*> parts;
    for (const auto& sum : sums) parts.push_back(sum.data());
    if (all) {
      group.treeAllReduce(parts, static_cast<T*>(out), leafCuts, sliceCuts);
    } else {
      group.treeReduceScatter(parts, static_cast<T*>(out), leafCuts, sliceCuts);
    }
  });
  if (traffic != nullptr) addTraffic(*traffic, group.traffic);
}

/// Squares in units of 2^-80, as an exact integer in limbs of 32 bits that ranks can add without carries.
struct ExactSum {
  unsigned __int128 units = 0;
  uint64_t notFinite = 0;
  void add(double x) {
    const double square = x * x;
    if (!(square < 0x1p40)) {
      notFinite |= std::isnan(x) ? 2u : 1u;
      return;
    }
    units += static_cast<unsigned __int128>(square * 0x1p80);  // one rounding, to whole units, for each element
  }
};

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiTreeAllReduce(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                 const int64_t* leafCuts, tuttiComm_t comm) {
  return guarded([&] {
    const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(count), 1, Group(comm).size());
    reduceLeaves(leaves, out, count, dtype, leafCuts, slices.data(), comm, true);
  });
}

tuttiResult_t tuttiTreeAllReduceCounted(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                        const int64_t* leafCuts, tuttiComm_t comm, tuttiTraffic_t* traffic) {
  return guarded([&] {
    require(traffic != nullptr && traffic->size == sizeof(tuttiTraffic_t),
            "traffic: begin from TUTTI_TRAFFIC_INITIALIZER");
    const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(count), 1, Group(comm).size());
    reduceLeaves(leaves, out, count, dtype, leafCuts, slices.data(), comm, true, traffic);
  });
}

tuttiResult_t tuttiTreeReduceScatter(const void* leaves, void* out, tuttiDataType_t dtype, const int64_t* leafCuts,
                                     const int64_t* sliceCuts, tuttiComm_t comm) {
  return guarded([&] {
    require(sliceCuts != nullptr, "sliceCuts is NULL");
    const size_t count = static_cast<size_t>(sliceCuts[Group(comm).size()]);
    reduceLeaves(leaves, out, count, dtype, leafCuts, sliceCuts, comm, false);
  });
}

tuttiResult_t tuttiSumOfSquares(const tuttiTensor_t* tensors, size_t n, tuttiComm_t comm, double* sum) {
  return guarded([&] {
    require(sum != nullptr && (tensors != nullptr || n == 0), "tensors or sum is NULL");
    ExactSum exact;
    for (size_t i = 0; i < n; ++i) {
      checkContiguous(&tensors[i], "a tensor", elementsOf(tensors[i]), tensors[i].dtype);
      withType(tensors[i].dtype, [&](auto zero) {
        const auto* data = static_cast<const decltype(zero)*>(tensors[i].data);
        for (int64_t e = 0; e < elementsOf(tensors[i]); ++e) exact.add(static_cast<double>(data[e]));
      });
    }
    uint64_t limbs[6];
    for (int l = 0; l < 4; ++l) limbs[l] = static_cast<uint64_t>(exact.units >> (32 * l)) & 0xffffffffu;
    limbs[4] = exact.notFinite & 1u;
    limbs[5] = exact.notFinite >> 1;
    Group(comm).allReduce(limbs, 6, tuttiUint64, tuttiSum);
    *sum = 0;
    for (int l = 3; l > 0; --l) {  // carries first, so that the limbs are those of the one integer
      for (int low = 0; low < 3; ++low) {
        limbs[low + 1] += limbs[low] >> 32;
        limbs[low] &= 0xffffffffu;
      }
    }
    for (int l = 3; l >= 0; --l) *sum += std::ldexp(static_cast<double>(limbs[l]), 32 * l - 80);
    if (limbs[4] != 0) *sum = std::numeric_limits<double>::infinity();
    if (limbs[5] != 0) *sum = std::numeric_limits<double>::quiet_NaN();
  });
}

tuttiResult_t tuttiTensorHash(const tuttiTensor_t* t, uint64_t key, int64_t first, uint64_t* hash) {
  return guarded([&] {
    require(t != nullptr && hash != nullptr, "tensor or hash is NULL");
    checkContiguous(t, "the tensor", elementsOf(*t), t->dtype);
    const size_t bytes = bytesOf(t->dtype);
    const char* data = static_cast<const char*>(t->data);
    uint64_t sum = 0;
    for (int64_t i = 0; i < elementsOf(*t); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, data + static_cast<size_t>(i) * bytes, bytes);
      // SplitMix64's finalizer (Steele, Lea, Flood, 2014) over value, position and key.
      uint64_t x = bits * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(first + i) * 0xd1342543de82ef95u + key;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
      sum += x ^ (x >> 31);
    }
    *hash = sum;
  });
}
