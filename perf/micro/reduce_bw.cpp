// Bandwidth of the element-wise reductions and copies on one core, against the machine's own copy.
//
//   reduce_bw [TYPE|all] [OP|all]     default: float sum, and the copies
//
// GB/s of output (1e9 bytes a second); traffic is (sources + 1) times that.  Each cell is the best of a few blocks.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/text.hpp"
#include "src/exec/reduce/reduce.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;

constexpr size_t kMost = size_t{32} << 20;
constexpr size_t kSizes[] = {1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, kMost};

/// Best time of one call in microseconds, over blocks of about a millisecond.
template <class F>
double bestUs(size_t bytes, F call) {
  const size_t calls = std::max<size_t>(1, (size_t{8} << 20) / bytes);
  double best = 1e30;
  for (int block = 0; block < 6; ++block) {
    const int64_t start = nowNs();
    for (size_t i = 0; i < calls; ++i) call();
    best = std::min(best, static_cast<double>(nowNs() - start) / static_cast<double>(calls));
  }
  return best / 1e3;
}

template <class F>
void row(const char* name, F callOfBytes) {
  std::printf("%-28s", name);
  for (const size_t bytes : kSizes) {
    std::printf(" %8.2f", static_cast<double>(bytes) / bestUs(bytes, [&] { callOfBytes(bytes); }) / 1e3);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const std::string type = argc > 1 ? argv[1] : "float";
  const std::string op = argc > 2 ? argv[2] : "sum";
  std::vector<std::vector<std::byte>> memory(5, std::vector<std::byte>(kMost, std::byte{0}));
  std::byte* dst = memory[4].data();
  std::vector<const void*> sources = {memory[0].data(), memory[1].data(), memory[2].data(), memory[3].data()};

  std::printf("%-28s", "GB/s of output");
  for (const size_t bytes : kSizes) std::printf(" %8s", formatBytes(bytes).c_str());
  std::printf("\n");
  row("memcpy", [&](size_t bytes) { std::memcpy(dst, sources[0], bytes); });
  row("copyBytes", [&](size_t bytes) { copyBytes(dst, sources[0], bytes); });
  row("copyPiece of something large", [&](size_t bytes) { copyPiece(dst, sources[0], bytes, size_t{1} << 40); });
  for (int t = 0; t < tuttiNumTypes; ++t) {
    const auto dtype = static_cast<tuttiDataType_t>(t);
    if (type != "all" && type != dataTypeName(dtype)) continue;
    for (int o = 0; o < tuttiNumOps; ++o) {
      const Reduction r = {.dtype = dtype, .op = static_cast<tuttiRedOp_t>(o)};
      if (!validOpForType(r.op, dtype) || (op != "all" && op != redOpName(r.op))) continue;
      const std::string name = cat(dataTypeName(dtype), " ", redOpName(r.op));
      const size_t elementBytes = dataTypeBytes(dtype);
      row(cat(name, ", 2").c_str(),
          [&](size_t bytes) { reducePair(r, dst, sources[0], sources[1], bytes / elementBytes); });
      row(cat(name, ", 2 in place").c_str(),
          [&](size_t bytes) { reducePair(r, dst, dst, sources[1], bytes / elementBytes); });
      row(cat(name, ", 4").c_str(), [&](size_t bytes) { reduceMany(r, dst, sources, bytes / elementBytes); });
    }
  }
  return 0;
}
