// Calls of Tutti itself on the machine of perf/results/ways-2core-vm.txt, where four and eight ranks share two cores,
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
    {2, "allgather", "direct", {0.23, 0.43, 0.96, 1.83, 7.33, 19.59, 89.94, 428.2}},
    {2, "allgather", "recursivedoubling", {0.23, 0.40, 0.98, 1.86, 7.29, 19.67, 90.07, 425.7}},
    {2, "allgather", "ring", {0.22, 0.42, 0.95, 1.90, 7.40, 19.52, 91.06, 446.2}},
    {2, "allreduce", "recursivedoubling", {0.22, 0.55, 1.14, 5.06, 10.68, 33.74, 160.0, 688.6}},
    {2, "allreduce", "ring", {0.40, 0.73, 1.93, 3.98, 13.66, 33.80, 163.9, 685.9}},
    {2, "allreduce", "twoshot", {0.40, 0.75, 1.88, 3.81, 13.67, 33.52, 161.2, 695.0}},
    {2, "alltoall", "direct", {0.20, 0.41, 0.89, 1.81, 7.23, 19.51, 113.7, 528.2}},
    {2, "reducescatter", "direct", {0.22, 0.45, 0.98, 1.87, 6.94, 17.24, 80.02, 436.8}},
    {2, "reducescatter", "ring", {0.21, 0.44, 1.00, 1.89, 6.85, 17.14, 77.85, 437.7}},
    {4, "allgather", "direct", {2.08, 2.52, 3.38, 5.45, 9.87, 38.07, 211.1, 826.9}},
    {4, "allgather", "recursivedoubling", {3.27, 3.66, 4.15, 6.11, 16.35, 41.87, 222.6, 924.4}},
    {4, "allgather", "ring", {2.58, 3.02, 5.17, 6.91, 20.96, 68.63, 289.2, 1165}},
    {4, "allreduce", "recursivedoubling", {2.42, 2.88, 4.54, 13.00, 30.37, 131.9, 593.9, 2419}},
    {4, "allreduce", "ring", {0, 5.87, 9.65, 14.19, 38.35, 114.8, 521.5, 2215}},
    {4, "allreduce", "twoshot", {0, 4.67, 7.24, 9.72, 22.92, 92.73, 425.6, 1676}},
    {4, "alltoall", "direct", {2.05, 2.41, 3.53, 5.68, 15.09, 55.83, 318.9, 1286}},
    {4, "reducescatter", "direct", {2.15, 2.38, 3.51, 5.60, 13.33, 43.50, 252.4, 1021}},
    {4, "reducescatter", "ring", {3.37, 3.88, 4.99, 7.87, 18.10, 51.57, 253.3, 1005}},
    {8, "allgather", "direct", {8.01, 8.78, 10.16, 13.84, 22.46, 96.79, 428.8, 1697}},
    {8, "allgather", "recursivedoubling", {18.65, 18.25, 21.31, 24.54, 35.52, 121.6, 619.7, 2498}},
    {8, "allgather", "ring", {15.41, 16.70, 20.70, 25.78, 47.85, 202.9, 724.1, 2872}},
    {8, "allreduce", "recursivedoubling", {10.44, 12.40, 16.31, 34.10, 93.16, 551.9, 2144, 10222}},
    {8, "allreduce", "ring", {0, 41.85, 47.13, 68.22, 111.2, 364.6, 1286, 5811}},
    {8, "allreduce", "twoshot", {0, 15.23, 23.03, 33.13, 55.01, 266.0, 950.8, 5042}},
    {8, "alltoall", "direct", {7.57, 8.43, 12.67, 19.24, 37.17, 207.8, 857.1, 3193}},
    {8, "reducescatter", "direct", {8.41, 8.15, 12.96, 18.13, 30.85, 156.0, 610.8, 2373}},
    {8, "reducescatter", "ring", {23.53, 23.33, 30.42, 37.99, 54.83, 148.7, 622.4, 2469}},
};

constexpr MeasuredRow kTcp[] = {
    {2, "allgather", "direct", {3.39, 3.47, 4.35, 5.83, 10.32, 31.54, 141.8, 652.6}},
    {2, "allgather", "recursivedoubling", {3.37, 3.53, 4.41, 5.80, 10.21, 31.77, 147.6, 648.6}},
    {2, "allgather", "ring", {3.48, 3.41, 4.45, 5.69, 10.31, 28.66, 141, 649.8}},
    {2, "allreduce", "recursivedoubling", {3.61, 4.10, 5.13, 8.78, 19.83, 64.45, 316.8, 1257}},
    {2, "allreduce", "ring", {7.09, 7.53, 9.19, 13.23, 22.30, 60.26, 288.9, 1179}},
    {2, "allreduce", "twoshot", {7.20, 7.31, 9.05, 13.19, 21.70, 62.76, 292.2, 1174}},
    {2, "alltoall", "direct", {3.48, 3.38, 4.35, 5.62, 9.87, 32.16, 173, 741.8}},
    {2, "reducescatter", "direct", {3.71, 3.59, 4.72, 6.39, 11.28, 33.91, 146.8, 720.1}},
    {2, "reducescatter", "ring", {3.74, 3.54, 4.58, 6.56, 11.31, 33.90, 149.6, 718.8}},
    {4, "allgather", "direct", {20.40, 21.38, 22.22, 24.99, 37.50, 173.5, 675.6, 2673}},
    {4, "allgather", "recursivedoubling", {19.07, 19.41, 21.40, 23.77, 33.25, 76.37, 602.9, 2445}},
    {4, "allgather", "ring", {24.04, 24.78, 26.26, 29.80, 43.35, 100.8, 432.1, 1711}},
    {4, "allreduce", "recursivedoubling", {16.02, 17.56, 21.50, 28.25, 67.70, 427.7, 1762, 7296}},
    {4, "allreduce", "ring", {0, 53.67, 61.14, 61.73, 95.46, 232.9, 908.6, 3786}},
    {4, "allreduce", "twoshot", {0, 44.34, 50.72, 53.13, 80.67, 395.2, 1344, 5617}},
    {4, "alltoall", "direct", {20.20, 20.32, 21.90, 24.46, 37.46, 193.3, 710.6, 2967}},
    {4, "reducescatter", "direct", {21.39, 22.00, 23.20, 26.67, 40.39, 218, 807.2, 3116}},
    {4, "reducescatter", "ring", {24.94, 26.24, 27.21, 31.47, 46.71, 134.1, 573.9, 2069}},
    {8, "allgather", "direct", {90.59, 97.38, 102.9, 118.2, 164.6, 312.1, 1852, 7672}},
    {8, "allgather", "recursivedoubling", {90.52, 97.60, 105.5, 113.6, 132.8, 280.4, 1552, 6469}},
    {8, "allgather", "ring", {99.35, 101.2, 113.2, 128.9, 160.9, 324.1, 1003, 4105}},
    {8, "allreduce", "recursivedoubling", {50.64, 51.35, 63.61, 93.03, 459.4, 1626, 6287, 28745}},
    {8, "allreduce", "ring", {0, 215.5, 221.9, 253.4, 343.5, 697.3, 2176, 10533}},
    {8, "allreduce", "twoshot", {0, 192.6, 206.3, 232.5, 357.8, 640.1, 3846, 17035}},
    {8, "alltoall", "direct", {92.48, 94.20, 96.75, 107.9, 158.2, 323, 1868, 8528}},
    {8, "reducescatter", "direct", {104.7, 106.8, 102.5, 127, 187.3, 342.5, 2034, 8321}},
    {8, "reducescatter", "ring", {110.9, 116.4, 111.5, 132.1, 178.9, 408.7, 1269, 5331}},
};

}  // namespace

std::vector<PublishedSet> measuredSets() {
  std::vector<PublishedSet> sets;
  sets.push_back(
      {.name = "Tutti, shm, 2, 4 and 8 ranks on two cores",
       .source = "perf/results/ways-2core-vm.txt, two vCPUs of a Xeon",
       .collective = "allreduce",
       .algorithms = "",
       .cluster =
           "machine package:1 core:2; ranks-per-node $R; cores 2; turn $a; launch $b; slice 128K; near line "
           "overhead:$c receive:$c latency:$d across:$m most:96 once:1; near small overhead:$e receive:$e latency:$f "
           "copy:$k across:$m across-copy:$n most:8192 once:1; near ring overhead:$g receive:$g latency:$h copy:$l "
           "across:$m across-copy:$n most:8192 once:1; near slot overhead:$i receive:$i latency:$j copy:$l across:$m "
           "across-copy:$n once:1; reduce $o; combine $u; copy $p; memory near:$q far:$r copy:$s reduce:$t",
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
                         "us for every message combined"},
       .constants = {0.3871, 0.02304, 0.07916, 0.0001, 0.07803, 0.09699,   0.1543,    0.3529, 0.3088, 2.153,  7.074,
                     26.32,  0.02299, 28.28,   170.7,  38.14,   1.181e+06, 9.726e+07, 0.4057, 0.4567, 0.06487},
       .points = pointsOf(kShm),
       .inRows = true});
  sets.push_back(
      {.name = "Tutti, tcp, 2, 4 and 8 ranks on two cores",
       .source = "perf/results/ways-2core-vm.txt, two vCPUs of a Xeon",
       .collective = "allreduce",
       .algorithms = "",
       .cluster = "machine package:1 core:2; ranks-per-node $R; cores 2; turn $a; launch $b; slice 128K; near stream "
                  "overhead:$c receive:$d latency:$e copy:$f gather:10; reduce $g; combine $m; copy $h; memory near:$i "
                  "far:$j copy:$k reduce:$l",
       .constantNames = {"turn us", "call us", "message: sender us", "message: receiver us", "message: latency us",
                         "GB/s of copies", "GB/s of operands", "GB/s of local copies", "near bytes", "far bytes",
                         "far copies, part of near", "far reductions, part of near", "us for every message combined"},
       .constants = {0.1889, 0.2454, 1.695, 1.649, 0.04353, 9.901, 218.3, 96.5, 7.26e+05, 2.368e+08, 0.404, 0.01518,
                     0.4896},
       .points = pointsOf(kTcp),
       .inRows = true});
  return sets;
}

}  // namespace tutti::sim
