// Attention of one rank over growing sequences.
#include <cmath>
#include <stdexcept>

#include "perf/layers/layers.hpp"

namespace tutti::perf {
namespace {

constexpr int64_t kHeads = 2, kDim = 64;

struct Sequence {
  tuttiAttention_t shape = TUTTI_ATTENTION_INITIALIZER;
  std::vector<float> values[9];
  tuttiTensor_t t[9];

  explicit Sequence(int64_t tokens) {
    shape.batch = 1, shape.queries = shape.keys = tokens, shape.heads = shape.kvHeads = kHeads, shape.headDim = kDim;
    for (size_t i = 0; i < 9; ++i) {
      const int64_t columns = i == 4 ? kHeads : kHeads * kDim;  // the fifth is lse
      for (int64_t e = 0; e < tokens * columns; ++e) {
        values[i].push_back(std::sin(static_cast<float>(e * (static_cast<int64_t>(i) + 1))));
      }
      t[i] = i == 4 ? tuttiVectorOf(values[i].data(), tuttiFloat32, tokens * columns)
                    : tuttiMatrixOf(values[i].data(), tuttiFloat32, tokens, columns, columns);
    }
  }
  double forwardMs(int repeats) {
    return medianMs(repeats,
                    [&] { parallelTry(tuttiAttentionForward(&shape, nullptr, &t[0], &t[1], &t[2], &t[3], &t[4])); });
  }
  double backwardMs(int repeats) {
    return medianMs(repeats, [&] {
      parallelTry(
          tuttiAttentionBackward(&shape, nullptr, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8]));
    });
  }
  double memoryMiB() const {
    size_t bytes = 0;
    parallelTry(tuttiAttentionMemory(&shape, tuttiFloat32, TUTTI_DEVICE_HOST, 1, &bytes));
    return static_cast<double>(bytes) / (1 << 20);
  }
};

/// What tuttiSp_t of one rank holds at most, counted and by the formula, in MiB.
void sequenceMemory(int64_t tokens, double* counted, double* expected) {
  tuttiSpConfig_t c = TUTTI_SP_CONFIG_INITIALIZER;
  c.sequence = tokens, c.heads = c.kvHeads = kHeads, c.headDim = kDim;
  const Sp sp(tuttiSpCreate, nullptr, nullptr, &c);
  size_t saved = 0, bytes[2] = {0, 0};
  parallelTry(tuttiSpSaved(sp.get(), &saved));
  Sequence s(tokens);
  std::vector<float> kept(saved);
  parallelTry(tuttiSpForward(sp.get(), &s.t[0], &s.t[1], &s.t[2], &s.t[3], kept.data()));
  parallelTry(tuttiSpBackward(sp.get(), kept.data(), &s.t[5], &s.t[6], &s.t[7], &s.t[8]));
  parallelTry(tuttiSpMemory(sp.get(), tuttiFloat32, &bytes[0], &bytes[1]));
  *counted = static_cast<double>(bytes[0]) / (1 << 20), *expected = static_cast<double>(bytes[1]) / (1 << 20);
}

}  // namespace

void measureAttention(const LayerOptions& options) {
  std::printf("causal, %lld heads of %lld, float32, one rank; whole: one tile of all scores\n",
              static_cast<long long>(kHeads), static_cast<long long>(kDim));
  std::printf("%7s %12s %12s %12s %12s %8s %12s %12s %14s %14s\n", "tokens", "forward ms", "whole", "backward ms",
              "whole", "times", "scores MiB", "whole MiB", "sp held MiB", "formula MiB");
  for (const int64_t tokens : options.tokens) {
    const int repeats = tokens > 2048 ? 1 : 5;
    Sequence tiled(tokens), whole(tokens);
    whole.shape.queryTile = whole.shape.keyTile = tokens;
    const double f = tiled.forwardMs(repeats), fw = whole.forwardMs(repeats);
    const double b = tiled.backwardMs(repeats), bw = whole.backwardMs(repeats);
    double counted = 0, expected = 0;
    sequenceMemory(tokens, &counted, &expected);
    if (counted != expected) throw std::runtime_error("what was held is not the formula's");
    std::printf("%7lld %12.2f %12.2f %12.2f %12.2f %8.2f %12.2f %12.2f %14.2f %14.2f\n", static_cast<long long>(tokens),
                f, fw, b, bw, (fw + bw) / (f + b), tiled.memoryMiB(), whole.memoryMiB(), counted, expected);
    std::fflush(stdout);
  }
}

}  // namespace tutti::perf
