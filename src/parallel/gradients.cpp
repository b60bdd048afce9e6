#include "src/parallel/gradients.hpp"

#include <cmath>

namespace tutti::parallel {
namespace {

uint64_t hashOf(const tuttiParameter_t& p) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto take = [&](uint64_t x) {
    for (int b = 0; b < 8; ++b) hash = (hash ^ ((x >> (8 * b)) & 0xff)) * 0x100000001b3u;
  };
  for (const char* c = p.name == nullptr ? "" : p.name; *c != '\0'; ++c) take(static_cast<unsigned char>(*c));
  take(static_cast<uint64_t>(p.value.dtype));
  take(static_cast<uint64_t>(p.value.nDims));
  for (int d = 0; d < p.value.nDims; ++d) take(static_cast<uint64_t>(p.value.shape[d]));
  return hash;
}

}  // namespace

SumPlan agreeOnSums(Group& group, int microBatches, double weight, bool average, int numerics, int wire, bool feedback,
                    tuttiDataType_t dtype) {
  const bool invariant = numerics == tuttiNumericsLayoutInvariant;
  require(invariant || numerics == tuttiNumericsFast, "numerics is ", numerics);
  require(wire >= tuttiWireExact && wire <= tuttiWireInt8, "there is no wire format ", wire);
  require(wire == tuttiWireExact || (!invariant && dtype == tuttiFloat32),
          "gradients are rounded on the wire in fast numerics and float32 only");
  require(!feedback || wire != tuttiWireExact, "feedback is of what rounding takes, and wire is exact");
  require(microBatches >= 0, "microBatches is ", microBatches);
  require(weight >= 0 && std::isfinite(weight) && (!invariant || weight == 1), "weight is ", weight,
          invariant ? "; with layout-invariant numerics it is 1" : "");
  const size_t n = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank());
  std::vector<double> all(2 * n);
  all[2 * rank] = microBatches;
  all[2 * rank + 1] = weight;
  std::vector<int64_t> pairs;
  for (size_t r = 0; r <= n; ++r) pairs.push_back(static_cast<int64_t>(2 * r));
  group.allGatherHost(all.data(), pairs.data(), tuttiFloat64);
  SumPlan plan{invariant, static_cast<tuttiWire_t>(wire), feedback, {0}, weight, 1};
  double sum = 0;
  for (size_t r = 0; r < n; ++r) {
    plan.leafCuts.push_back(plan.leafCuts.back() + static_cast<int64_t>(all[2 * r]));
    sum += all[2 * r] * all[2 * r + 1];
  }
  require(plan.leafCuts.back() >= 1 && sum > 0, "no rank has a micro-batch that counts");
  if (average) plan.scale = 1 / sum;
  return plan;
}

void compareParameters(Group& group, const tuttiParameter_t* parameters, size_t n) {
  const size_t size = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank());
  std::vector<int64_t> one;
  for (size_t r = 0; r <= size; ++r) one.push_back(static_cast<int64_t>(r));
  std::vector<uint64_t> counts(size);
  counts[rank] = n;
  group.allGatherHost(counts.data(), one.data(), tuttiUint64);
  for (size_t r = 0; r < size; ++r) {
    if (counts[r] == counts[0]) continue;
    fail(tuttiInvalidUsage, "rank ", r, " has ", counts[r], " parameters, rank 0 has ", counts[0]);
  }
  std::vector<uint64_t> hashes(size * n);
  std::vector<int64_t> blocks;
  for (size_t r = 0; r <= size; ++r) blocks.push_back(static_cast<int64_t>(r * n));
  for (size_t i = 0; i < n; ++i) hashes[rank * n + i] = hashOf(parameters[i]);
  group.allGatherHost(hashes.data(), blocks.data(), tuttiUint64);
  for (size_t r = 0; r < size; ++r) {
    for (size_t i = 0; i < n; ++i) {
      if (hashes[r * n + i] == hashes[i]) continue;
      fail(tuttiInvalidUsage, "rank ", r, " holds another parameter ", i, " than rank 0: name, dtype or shape differ (",
           "here it is ", parameters[i].name == nullptr ? "unnamed" : parameters[i].name, ")");
    }
  }
}

}  // namespace tutti::parallel
