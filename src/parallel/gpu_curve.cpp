#include "src/parallel/gpu_curve.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "src/parallel/fail.hpp"

namespace tutti::parallel {
namespace {

// Multiprocessors and peaks: NVIDIA's data sheets.  Sustained: A100 Azure's AI benchmarking guide (2024, fp16), H100
// and H200 what products of Llama 70B's training reach with normally distributed values (SemiAnalysis, "MI300X vs H100
// vs H200", 2024), B200 stas00/ml-engineering's best of all shapes (2026).  Memory: copies, Azure's guide; B200 what
// products of XLA's tables (2025) reach.  Blocks: channels of NCCL's ring in a node (tools/nccl_model; logs of
// nccl-tests#143). Casts: Hopper multiplies rows by rows alone and needs operands in both orders, Blackwell does not
// (Transformer Engine's guide, "Handling transposes"). Attention: FlashAttention 2, causal, 8192 tokens, forward and
// backward, Azure's guide (B200: its GB200).
constexpr GpuCurve kCurves[] = {
    {tuttiGpuA100, 108, {312e12, 0}, {257e12, 0}, 1.61e12, 2.04e12, 400, 24, 179.5e12, 0},
    {tuttiGpuH100, 132, {989e12, 1979e12}, {720e12, 1280e12}, 2.9e12, 3.35e12, 700, 24, 327.9e12, 4},
    {tuttiGpuH200, 132, {989e12, 1979e12}, {720e12, 1280e12}, 4.01e12, 4.8e12, 700, 24, 329.3e12, 4},
    {tuttiGpuB200, 148, {2250e12, 4500e12}, {1745e12, 3433e12}, 6.5e12, 8e12, 1000, 32, 373.9e12, 3},
};

// The same chip at 300 and 400 W sustains 252.9 and 271.2 TFLOP/s: A100 PCIe and SXM (stas00/ml-engineering, 2026).
const double kRateByPower = std::log(271.2 / 252.9) / std::log(400.0 / 300);

// Fitted on 375 bf16 products of an H100 (XLA, matmul_interpolator_data.h, 2025), where they are off by 5 % in the
// mean; B200 by its data sheet with these: 7 %.
constexpr double kStartSeconds = 5e-6;
constexpr double kShareOfPeak = 0.93;  // of the clock that short products keep
constexpr double kFillBytes = 512;     // of a row of k, in which a tile's pipeline fills
constexpr struct {
  double m, n, share;  // share of a multiprocessor's rate
} kTiles[] = {{128, 256, 1}, {256, 128, 1}, {128, 128, 0.9}, {64, 256, 0.8}, {64, 128, 0.7}, {64, 64, 0.45}};
constexpr double kCuts[] = {1, 2, 4, 8};

}  // namespace

const GpuCurve* curveOf(int gpu) {
  const auto* found = std::find_if(std::begin(kCurves), std::end(kCurves), [&](auto& c) { return c.gpu == gpu; });
  return found == std::end(kCurves) ? nullptr : found;
}

std::optional<GpuCurve> curveOf(const tuttiMachine_t& machine) {
  const GpuCurve* known = curveOf(machine.gpu);
  if (known == nullptr) return std::nullopt;
  GpuCurve gpu = *known;
  if (machine.watts > 0) {
    for (double& rate : gpu.sustained) rate *= std::pow(machine.watts / gpu.watts, kRateByPower);
  }
  for (size_t type = 0; machine.sustained > 0 && type < 2; ++type) {
    gpu.sustained[type] = machine.sustained * gpu.peak[type];
  }
  if (machine.castBytes > 0) gpu.castBytes = machine.castBytes;
  if (machine.attentionFlops > 0) gpu.attention = machine.attentionFlops;
  if (machine.memoryBandwidth > 0) gpu.memory *= machine.memoryBandwidth / gpu.sheet;
  return gpu;
}

GpuCurve besideCollective(const GpuCurve& gpu) {
  GpuCurve left = gpu;
  left.multiprocessors -= gpu.blocks;
  const double part = left.multiprocessors / gpu.multiprocessors;
  for (double& rate : left.peak) rate *= part;
  left.attention *= part;
  return left;  // what power sustains stays: the others' clocks rise
}

double productSeconds(const GpuCurve& gpu, int elementBytes, const ProductShape& p) {
  const size_t type = elementBytes == 1 ? 1 : 0;
  const double rate = kShareOfPeak * gpu.peak[type] / gpu.multiprocessors;
  double best = INFINITY;
  for (const auto& tile : kTiles) {
    for (const double cuts : kCuts) {
      const double tiles = p.count * std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n) * cuts;
      const double waves = std::ceil(tiles / gpu.multiprocessors);
      const double sums = cuts > 1 && !p.onChip ? p.count * p.m * p.n * 4 * cuts / gpu.memory : 0;
      best = std::min(
          best, waves * 2 * tile.m * tile.n * (p.k / cuts + kFillBytes / elementBytes) / (rate * tile.share) + sums);
    }
  }
  const double bytes = p.onChip ? 0 : elementBytes * (p.m * p.k + p.k * p.n) + 2 * p.m * p.n;
  const double operands = p.count * bytes / gpu.memory;
  const double sustained = 2 * p.count * p.m * p.n * p.k / gpu.sustained[type];
  return kStartSeconds + std::max({best, operands, sustained});
}

}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiMatmulRate(int gpu, int elementBytes, double m, double n, double k, double count, double* flops) {
  return guardedIf(flops != nullptr, "flops is NULL", [&] {
    const GpuCurve* curve = curveOf(gpu);
    require(curve != nullptr, "there is no tuttiGpu_t ", gpu, " that products are known of");
    require(elementBytes == 1 || elementBytes == 2, "elements of ", elementBytes, " bytes; 1 and 2 are known");
    require(curve->peak[elementBytes == 1 ? 1 : 0] > 0, "this generation multiplies no elements of 1 byte");
    require(m >= 1 && n >= 1 && k >= 1 && count >= 1, "products of ", m, " x ", k, " by ", k, " x ", n);
    *flops = 2 * m * n * k * count / productSeconds(*curve, elementBytes, {m, n, k, count});
  });
}
