// Calls of Tutti itself on the machine of perf/results/ways-2core-vm2.txt, where four and eight ranks share two cores,
// with the algorithm that ran: what a call adds to a row of calls.
#include <iterator>
#include <span>

#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

constexpr double kSizes[] = {8, 512, 4 * kK, 16 * kK, 64 * kK, 256 * kK, 1 * kM, 4 * kM};
constexpr size_t kNumSizes = std::size(kSizes);

/// 0: not measured, or chunks of less than an element, which a schedule does not know of.
struct MeasuredRow {
  int ranks;
  const char *collective, *algorithm;
  double us[kNumSizes];
};

/// Every second size is fitted, beginning with the first and the second in turn.
std::vector<PublishedPoint> pointsOf(std::span<const MeasuredRow> rows) {
  std::vector<PublishedPoint> points;
  for (size_t r = 0; r < rows.size(); ++r) {
    const MeasuredRow& row = rows[r];
    for (size_t s = 0; s < kNumSizes; ++s) {
      if (row.us[s] <= 0) continue;
      points.push_back({1, kSizes[s], row.us[s], (s + r) % 2 == 0, row.algorithm, row.collective, row.ranks});
    }
  }
  return points;
}

constexpr MeasuredRow kShm[] = {
    {2, "allgather", "direct", {0.2, 0.37, 0.84, 1.68, 6.73, 17.76, 79.34, 380.1}},
    {2, "allgather", "recursivedoubling", {0.2, 0.37, 0.84, 1.68, 6.72, 18.27, 78.7, 377.3}},
    {2, "allgather", "ring", {0.2, 0.37, 0.84, 1.71, 6.71, 17.96, 78.08, 377.7}},
    {2, "allreduce", "recursivedoubling", {0.2, 0.47, 1.09, 4.77, 8.87, 30.54, 141.4, 577.7}},
    {2, "allreduce", "ring", {0.36, 0.67, 1.69, 3.53, 12.94, 30.76, 142.1, 591.7}},
    {2, "allreduce", "twoshot", {0.36, 0.67, 1.66, 3.55, 12.55, 30.83, 141.7, 592.9}},
    {2, "alltoall", "direct", {0.18, 0.39, 0.82, 1.58, 6.71, 18.1, 93.56, 475.2}},
    {2, "reducescatter", "direct", {0.2, 0.4, 0.86, 1.68, 6.36, 15.02, 66.96, 377.1}},
    {2, "reducescatter", "ring", {0.2, 0.4, 0.85, 1.66, 6.22, 14.99, 67.66, 383.3}},
    {4, "allgather", "direct", {1.75, 2.08, 2.72, 4.36, 8.64, 30.01, 178.6, 708.1}},
    {4, "allgather", "recursivedoubling", {2.66, 3.02, 3.57, 5.02, 13.86, 32.9, 191.5, 770.1}},
    {4, "allgather", "ring", {2.4, 2.6, 4.15, 5.64, 17.58, 59.77, 248.6, 1000}},
    {4, "allreduce", "recursivedoubling", {2.11, 2.43, 4.04, 11.99, 26.27, 99.92, 449.6, 1788}},
    {4, "allreduce", "ring", {0, 4.92, 9, 12.45, 33.78, 90.33, 407.2, 1610}},
    {4, "allreduce", "twoshot", {0, 4.22, 5.98, 8.72, 18.55, 68.05, 334.7, 1314}},
    {4, "alltoall", "direct", {1.67, 2.14, 2.92, 5.03, 12.87, 43.79, 268.5, 1134}},
    {4, "reducescatter", "direct", {1.78, 2.01, 2.91, 4.82, 11.41, 35.25, 221.9, 900}},
    {4, "reducescatter", "ring", {2.88, 3.03, 4.32, 6.75, 15.79, 40.96, 211.6, 864.8}},
    {8, "allgather", "direct", {5.95, 6.3, 8.1, 10.74, 17.84, 72.63, 362, 1468}},
    {8, "allgather", "recursivedoubling", {13.67, 14.21, 16.32, 19.69, 27.59, 88.9, 529.9, 2145}},
    {8, "allgather", "ring", {11.65, 12.36, 14.88, 18.12, 40.9, 161.2, 589.5, 2520}},
    {8, "allreduce", "recursivedoubling", {8.11, 9.02, 13.51, 26.7, 79.52, 439.1, 1743, 6981}},
    {8, "allreduce", "ring", {0, 33.66, 41.97, 55.76, 94.19, 312, 1102, 4739}},
    {8, "allreduce", "twoshot", {0, 13.22, 20.63, 27.23, 47.12, 229.6, 888.6, 3686}},
    {8, "alltoall", "direct", {5.93, 6.23, 9.68, 15.39, 28.66, 172.5, 693.3, 2845}},
    {8, "reducescatter", "direct", {6.32, 6.4, 8.8, 12.97, 25.11, 132.1, 547.4, 2176}},
    {8, "reducescatter", "ring", {19.03, 19.5, 22.59, 31.32, 46.34, 123.1, 540.1, 2177}},
};

constexpr MeasuredRow kTcp[] = {
    {2, "allgather", "direct", {3.05, 3.24, 3.95, 5.36, 10.01, 28.35, 128, 590.9}},
    {2, "allgather", "recursivedoubling", {3.13, 3.27, 4.02, 5.43, 9.64, 28.39, 128, 590}},
    {2, "allgather", "ring", {3.11, 3.2, 3.92, 5.43, 9.77, 28.64, 131, 603.6}},
    {2, "allreduce", "recursivedoubling", {3.245, 3.605, 4.9, 7.645, 18.13, 56.43, 285.5, 1163}},
    {2, "allreduce", "ring", {6.475, 6.72, 8.705, 11.74, 19.58, 56.37, 265.7, 1077}},
    {2, "allreduce", "twoshot", {6.58, 6.745, 8.625, 11.61, 19.23, 58.04, 270.2, 1102}},
    {2, "alltoall", "direct", {3.04, 3.07, 4.03, 5.28, 9.53, 29.92, 145.2, 623.4}},
    {2, "reducescatter", "direct", {3.47, 3.44, 4.27, 5.98, 10.16, 30.2, 130.8, 587.4}},
    {2, "reducescatter", "ring", {3.47, 3.41, 4.29, 6.05, 10.07, 31.41, 135.5, 590.6}},
    {4, "allgather", "direct", {19.01, 19.95, 21.49, 24.33, 37.14, 80.15, 355.8, 1436}},
    {4, "allgather", "recursivedoubling", {16.81, 18.07, 20.29, 23.75, 32.76, 67.41, 301.5, 1239}},
    {4, "allgather", "ring", {20.94, 23.21, 25.09, 29.85, 41.65, 96.78, 401.4, 1633}},
    {4, "allreduce", "recursivedoubling", {13.42, 14.41, 17.73, 26.78, 61.09, 247.3, 1063, 4130}},
    {4, "allreduce", "ring", {0, 45.03, 51.01, 57.27, 87.08, 225.3, 867.1, 3403}},
    {4, "allreduce", "twoshot", {0, 39.98, 43.88, 49, 76.43, 200.3, 769.1, 2996}},
    {4, "alltoall", "direct", {18.44, 18.9, 20.3, 21.61, 35.01, 82.07, 417.1, 1702}},
    {4, "reducescatter", "direct", {21.22, 21.7, 23.23, 26.71, 41, 91.15, 405.7, 1658}},
    {4, "reducescatter", "ring", {26.57, 25.61, 26.78, 30.27, 46.08, 113.7, 453.9, 1883}},
    {8, "allgather", "direct", {87.99, 94.16, 91.97, 109.4, 156.2, 283.5, 922.6, 4046}},
    {8, "allgather", "recursivedoubling", {85.47, 91.55, 91.78, 103.7, 122.8, 219.4, 787.5, 3422}},
    {8, "allgather", "ring", {94.03, 99.43, 97.41, 123, 146.2, 281.5, 938.7, 4087}},
    {8, "allreduce", "recursivedoubling", {46.68, 48.14, 54.99, 86.76, 216.1, 939.7, 3668, 14652}},
    {8, "allreduce", "ring", {0, 202.8, 223.7, 234.2, 329.1, 666.2, 2137, 8574}},
    {8, "allreduce", "twoshot", {0, 184.3, 192.7, 217.6, 338, 625.2, 1994, 8436}},
    {8, "alltoall", "direct", {90.91, 93.91, 94.66, 105.3, 163.9, 311, 1052, 4384}},
    {8, "reducescatter", "direct", {97.14, 101, 101.8, 112.1, 174.8, 335.5, 1115, 4550}},
    {8, "reducescatter", "ring", {105.9, 111.9, 106.4, 120.9, 165.1, 356.4, 1148, 4809}},
};

}  // namespace

std::vector<PublishedSet> measuredSets() {
  std::vector<PublishedSet> sets;
  sets.push_back(
      {.name = "Tutti, shm, 2, 4 and 8 ranks on two cores",
       .source = "perf/results/ways-2core-vm2.txt, two vCPUs of a Xeon",
       .collective = "allreduce",
       .algorithms = "",
       .cluster =
           "machine package:1 core:2; ranks-per-node $R; cores 2; turn $a; pass $w; launch $b; slice 128K; near line "
           "overhead:$c receive:$c latency:$d across:$m most:96 once:1; near small overhead:$e receive:$e latency:$f "
           "copy:$k across:$m across-copy:$n most:8192 once:1; near ring overhead:$g receive:$g latency:$h copy:$l "
           "across:$m across-copy:$n across-write:$v most:8192 once:1; near slot overhead:$i receive:$i latency:$j "
           "copy:$l across:$m across-copy:$n across-write:$v once:1; reduce $o; combine $u; copy $p; memory near:$q "
           "far:$r copy:$s reduce:$t",
       .constantNames = {"turn us",
                         "call us",
                         "line: us of either end",
                         "line: latency us",
                         "small: us of either end",
                         "small: latency us",
                         "ring: us of either end",
                         "ring: latency us",
                         "slot: us of either end",
                         "slot: latency us",
                         "small: GB/s of copies",
                         "ring, slot: GB/s of copies",
                         "from another core: us",
                         "from another core: GB/s",
                         "GB/s of operands",
                         "GB/s of local copies",
                         "near bytes",
                         "far bytes",
                         "far copies, part of near",
                         "far reductions, part of near",
                         "us for every message combined",
                         "to another core: GB/s",
                         "going past a rank: us"},
       .constants = {0.39028,    0.073507,   0.051156, 3.4118e-06, 0.044866,  0.10923, 0.10648, 0.34363,
                     0.19591,    2.3131,     8.0988,   34.216,     0.0088818, 84.844,  171.4,   35.719,
                     1.4646e+06, 4.5094e+07, 0.4175,   0.32166,    0.058432,  39.42,   0.0245},
       .points = pointsOf(kShm),
       .inRows = true});
  sets.push_back(
      {.name = "Tutti, tcp, 2, 4 and 8 ranks on two cores",
       .source = "perf/results/ways-2core-vm2.txt, two vCPUs of a Xeon",
       .collective = "allreduce",
       .algorithms = "",
       .cluster =
           "machine package:1 core:2; ranks-per-node $R; cores 2; turn $a; launch $b; slice 128K; near small "
           "overhead:$c receive:$d latency:$e copy:$f across:$i across-copy:$j most:16384 gather:10; near stream "
           "overhead:$g receive:$g latency:$e copy:$h across:$i across-copy:$j gather:10; reduce $k; combine $q; copy "
           "$l; memory near:$m far:$n copy:$o reduce:$p",
       .constantNames = {"turn us", "call us", "small: sender us", "small: receiver us", "latency us",
                         "small: GB/s of copies", "larger: us of either end", "larger: GB/s of copies",
                         "from another core: us", "from another core: GB/s", "GB/s of operands", "GB/s of local copies",
                         "near bytes", "far bytes", "far copies, part of near", "far reductions, part of near",
                         "us for every message combined"},
       .constants = {0.20321, 2.4989e-06, 1.1194, 1.65, 3.4413e-06, 7.0145, 1.6963, 22.61, 0.43477, 16.095, 25.778,
                     31.388, 6.5267e+05, 4.0429e+08, 0.31086, 0.27413, 0.37258},
       .points = pointsOf(kTcp),
       .inRows = true});
  return sets;
}

}  // namespace tutti::sim
