// alltoallv_perf: every rank sends a different count to every other.  From the environment (TUTTI_TESTS_ or
// NCCL_TESTS_ in front):
//   ALLTOALLV_SPREAD        0..1: counts lie between (1 - spread) and 1 times that of alltoall_perf (0.5)
//   ALLTOALLV_MATRIX_FILE   n x n numbers; rank r sends matrix[r][j] times that count to rank j
//   ALLTOALLV_MATRIX_SCALE  factor on all numbers of the file (1)
// The size column is the most bytes that any rank sends or receives; busbw counts (n-1)/n.  In place, send and receive
// layouts must be equal: counts are then those of a symmetric matrix (a file that is not symmetric has no in place).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "perf/common/collective.hpp"
#include "perf/common/environment.hpp"

namespace tutti::perf {
namespace {

struct Weights {
  double spread = 0.5;
  std::vector<double> matrix;  // empty: hashed
};

Weights readWeights() {
  Weights w;
  w.spread = testsNumber("ALLTOALLV_SPREAD", 0.5);
  const std::string path = testsVariable("ALLTOALLV_MATRIX_FILE");
  const double scale = testsNumber("ALLTOALLV_MATRIX_SCALE", 1);
  std::ifstream file(path);
  for (double number; file >> number;) w.matrix.push_back(std::max(0.0, number * scale));
  if (!path.empty() && w.matrix.empty()) w.matrix.push_back(-1);  // refused below
  return w;
}

const Weights& weights() {
  static const Weights w = readWeights();  // read once: every row of a run uses the same
  return w;
}

double weight(int from, int to, int nRanks, bool symmetric) {
  const Weights& w = weights();
  if (!w.matrix.empty()) return w.matrix[toSize(from) * toSize(nRanks) + toSize(to)];
  if (symmetric && from > to) std::swap(from, to);
  uint32_t h = static_cast<uint32_t>(from) * 0x9e3779b1u + static_cast<uint32_t>(to) * 0x85ebca77u + 0x1234567u;
  h = (h ^ (h >> 15)) * 0x2c1b3c6du;
  return 1 - w.spread * (h >> 16) / 65536.0;
}

size_t countBetween(const Geometry& g, int from, int to) {
  return static_cast<size_t>(std::floor(static_cast<double>(perRankCount(g)) * weight(from, to, g.nRanks, g.inPlace)));
}

size_t sum(const Geometry& g, int rank, bool sent) {
  size_t total = 0;
  for (int j = 0; j < g.nRanks; ++j) total += sent ? countBetween(g, rank, j) : countBetween(g, j, rank);
  return total;
}

Vectors vectors(const Geometry& g) {
  Vectors v;
  size_t sent = 0, received = 0;
  for (int j = 0; j < g.nRanks; ++j) {
    v.sendCounts.push_back(countBetween(g, g.rank, j));
    v.recvCounts.push_back(countBetween(g, j, g.rank));
    v.sendOffsets.push_back(sent);
    v.recvOffsets.push_back(received);
    sent += v.sendCounts.back();
    received += v.recvCounts.back();
  }
  return v;
}

Layout layout(const Geometry& g) {
  size_t most = 0;
  for (int r = 0; r < g.nRanks; ++r) most = std::max({most, sum(g, r, true), sum(g, r, false)});
  return Layout{.sendCount = sum(g, g.rank, true),
                .recvCount = sum(g, g.rank, false),
                .count = perRankCount(g),
                .rowBytes = most * g.elementBytes,
                .trafficBytes = most * g.elementBytes};
}

std::vector<Block> expect(const Geometry& g) {
  const Vectors v = vectors(g);
  std::vector<Block> blocks;
  for (int j = 0; j < g.nRanks; ++j) {
    size_t sourceIndex = 0;  // where rank j keeps what it has for us
    for (int k = 0; k < g.rank; ++k) sourceIndex += countBetween(g, j, k);
    blocks.push_back({v.recvOffsets[toSize(j)], v.recvCounts[toSize(j)], j, sourceIndex});
  }
  return blocks;
}

size_t largestBlock(const Geometry& g) {
  size_t most = 0;
  for (int from = 0; from < g.nRanks; ++from) {
    for (int to = 0; to < g.nRanks; ++to) most = std::max(most, countBetween(g, from, to));
  }
  return most;
}

const char* refuses(int nRanks) {
  const std::vector<double>& m = weights().matrix;
  if (m.empty() || m.size() == toSize(nRanks) * toSize(nRanks)) return nullptr;
  return "ALLTOALLV_MATRIX_FILE cannot be read, or has not one number for each pair of ranks";
}

bool symmetric(int nRanks) {
  const std::vector<double>& m = weights().matrix;
  for (size_t i = 0; i < m.size(); ++i) {
    const size_t row = i / toSize(nRanks), column = i % toSize(nRanks);
    if (m[i] != m[column * toSize(nRanks) + row]) return false;
  }
  return true;
}

}  // namespace

const Collective kAllToAllv = {
    .name = "AlltoAllv",
    .program = "alltoallv_perf",
    .reduces = false,
    .rooted = false,
    .layout = layout,
    .expect = expect,
    .call =
        [](const Call& c) {
          const Vectors& v = c.vectors;
          return tuttiAllToAllv(c.send, v.sendCounts.data(), v.sendOffsets.data(), c.recv, v.recvCounts.data(),
                                v.recvOffsets.data(), c.type, c.comm, c.stream);
        },
    .busFactor = shareOfOthers,
    .vectors = vectors,
    .refuses = refuses,
    .hasInPlace = symmetric,
    .estimate = [](const Call& c,
                   tuttiEstimate_t* e) { return ask(c, tuttiCallAllToAllv, largestBlock(c.geometry), e); },
};

}  // namespace tutti::perf
