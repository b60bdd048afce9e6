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
    {2, "allgather", "direct", {0.21, 0.39, 0.88, 1.68, 4.68, 18.46, 82.1, 421.4}},
    {2, "allgather", "recursivedoubling", {0.21, 0.4, 0.88, 1.73, 4.71, 18.54, 82.44, 423.8}},
    {2, "allgather", "ring", {0.21, 0.39, 0.91, 1.72, 4.56, 18.74, 82.55, 421.9}},
    {2, "allreduce", "recursivedoubling", {0.21, 0.5, 1.1, 2.88, 7.92, 31.28, 146.3, 682.9}},
    {2, "allreduce", "ring", {0.37, 0.69, 1.7, 3.69, 8.52, 31.4, 147.4, 684.6}},
    {2, "allreduce", "twoshot", {0.37, 0.7, 1.7, 3.62, 8.58, 31, 148.3, 680.8}},
    {2, "alltoall", "direct", {0.18, 0.4, 0.83, 1.6, 4.41, 18.54, 98.33, 498.2}},
    {2, "reducescatter", "direct", {0.21, 0.42, 0.92, 1.72, 4.06, 15.9, 68.75, 407.5}},
    {2, "reducescatter", "ring", {0.21, 0.39, 0.94, 1.72, 4.16, 16.01, 69.59, 406.1}},
    {4, "allgather", "direct", {1.69, 2.04, 2.71, 4.38, 8.65, 30.17, 192.7, 790.4}},
    {4, "allgather", "recursivedoubling", {2.66, 2.97, 3.49, 5.05, 11.43, 32.82, 191.2, 834.5}},
    {4, "allgather", "ring", {2.16, 2.33, 4.33, 5.57, 15.16, 51.41, 259.1, 1087}},
    {4, "allreduce", "recursivedoubling", {2.1, 2.43, 4.02, 9.01, 25.87, 101.7, 482.7, 1953}},
    {4, "allreduce", "ring", {0, 5.07, 8.83, 12.42, 26.85, 90.98, 442, 1784}},
    {4, "allreduce", "twoshot", {0, 4.15, 5.96, 8.71, 18.22, 65.6, 367.2, 1464}},
    {4, "alltoall", "direct", {1.64, 2.1, 2.92, 5.16, 11.59, 42.61, 282.2, 1185}},
    {4, "reducescatter", "direct", {1.75, 2.02, 2.98, 5.19, 10.98, 33.14, 221.8, 915.6}},
    {4, "reducescatter", "ring", {2.92, 3.03, 4.38, 6.87, 14.56, 40.1, 214.3, 916.3}},
    {8, "allgather", "direct", {5.85, 6.23, 7.71, 10.85, 17.01, 76.41, 385.2, 1604}},
    {8, "allgather", "recursivedoubling", {13.37, 13.95, 15.84, 19.17, 27.51, 87.53, 536.9, 2210}},
    {8, "allgather", "ring", {11.33, 11.88, 15.21, 19.25, 40.2, 146.3, 620.3, 2541}},
    {8, "allreduce", "recursivedoubling", {7.95, 10.05, 12.6, 23.86, 73.49, 426.6, 1766, 7243}},
    {8, "allreduce", "ring", {0, 33.47, 42.91, 54.52, 91.88, 301.2, 1095, 4605}},
    {8, "allreduce", "twoshot", {0, 12.86, 18.64, 27.01, 47.73, 210.9, 889.9, 3526}},
    {8, "alltoall", "direct", {5.9, 6.1, 9.61, 15.05, 28.09, 178.1, 697.8, 2813}},
    {8, "reducescatter", "direct", {6.16, 6.31, 9.19, 14.06, 25.12, 127.3, 558.4, 2118}},
    {8, "reducescatter", "ring", {18.19, 18.86, 22.91, 30.92, 46.77, 129.4, 559.2, 2174}},
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
           "across:$m across-copy:$n across-write:$v most:65536 once:1; near slot overhead:$i receive:$i latency:$j "
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
       .constants = {0.38472,    0.090229,   0.050324, 3.6431e-06, 0.041932, 0.12352, 0.10604, 0.36022,
                     0.46719,    0.8719,     7.8375,   38.614,     3.39e-06, 58.787,  66.081,  29.099,
                     2.0624e+06, 2.4734e+07, 0.41071,  0.98097,    0.064209, 35.8,    0.036839},
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
