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
    {2, "allgather", "direct", {3.73, 3.71, 4.82, 6.46, 11.13, 34.13, 145.2, 1007}},
    {2, "allgather", "recursivedoubling", {3.67, 3.81, 4.78, 6.46, 10.83, 33.03, 245.2, 1014}},
    {2, "allgather", "ring", {3.73, 3.69, 4.71, 6.50, 10.98, 61.52, 164.8, 1051}},
    {2, "allreduce", "recursivedoubling", {4.06, 4.52, 5.82, 9.16, 21.67, 120.7, 507.5, 1947}},
    {2, "allreduce", "ring", {8.43, 8.52, 10.46, 13.52, 22.69, 66.99, 486.6, 2024}},
    {2, "allreduce", "twoshot", {8.21, 8.17, 10.35, 14.01, 22.51, 121.8, 311.8, 2060}},
    {2, "alltoall", "direct", {3.78, 3.80, 4.85, 6.07, 10.50, 33.48, 175.1, 1071}},
    {2, "reducescatter", "direct", {4.08, 4.06, 5.25, 7.13, 11.59, 34.82, 282.1, 689.1}},
    {2, "reducescatter", "ring", {4.06, 3.99, 5.20, 7.13, 11.73, 36.93, 173.5, 694.0}},
    {4, "allgather", "direct", {23.43, 23.63, 24.40, 28.52, 42.47, 93.85, 521.2, 1771}},
    {4, "allgather", "recursivedoubling", {23.54, 23.13, 24.55, 27.36, 38.76, 78.42, 376.8, 1404}},
    {4, "allgather", "ring", {28.26, 29.05, 29.53, 34.05, 46.95, 106.2, 441.9, 2382}},
    {4, "allreduce", "recursivedoubling", {19.57, 20.00, 22.56, 31.67, 70.69, 396.2, 1198, 6627}},
    {4, "allreduce", "ring", {0, 62.41, 64.92, 74.10, 103.8, 258.3, 945.3, 3910}},
    {4, "allreduce", "twoshot", {0, 49.76, 53.44, 59.98, 88.90, 220.4, 1231, 4362}},
    {4, "alltoall", "direct", {22.96, 21.58, 24.71, 27.37, 40.67, 90.69, 491.6, 2100}},
    {4, "reducescatter", "direct", {24.40, 24.46, 26.57, 29.60, 44.06, 101.8, 612.7, 2059}},
    {4, "reducescatter", "ring", {30.48, 30.12, 30.99, 34.93, 52.25, 123.6, 492.5, 1973}},
    {8, "allgather", "direct", {119.8, 119.0, 117.9, 130.1, 190.2, 355.8, 1245, 4935}},
    {8, "allgather", "recursivedoubling", {127.9, 133.1, 121.0, 134.0, 172.8, 300.0, 1084, 4139}},
    {8, "allgather", "ring", {126.8, 132.1, 125.5, 145.5, 187.2, 362.4, 1850, 7681}},
    {8, "allreduce", "recursivedoubling", {59.29, 63.63, 71.63, 113.9, 254.2, 1068, 4580, 20542}},
    {8, "allreduce", "ring", {0, 244.4, 254.9, 283.5, 374.1, 773.9, 3929, 20214}},
    {8, "allreduce", "twoshot", {0, 229.6, 229.7, 250.2, 379.3, 676.4, 2593, 13050}},
    {8, "alltoall", "direct", {110.5, 107.4, 112.8, 123.7, 179.4, 336.0, 1223, 5579}},
    {8, "reducescatter", "direct", {117.2, 122.1, 127.0, 136.6, 194.2, 371.6, 1450, 6537}},
    {8, "reducescatter", "ring", {128.4, 134.2, 138.5, 148.6, 193.5, 386.2, 2077, 9315}},
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
       .constants = {0.4809, 0.0001, 2.204, 1.622, 0.2687, 10.4, 14.12, 46.9, 3.768e+05, 2.254e+08, 0.5, 0.7771, 0.347},
       .points = pointsOf(kTcp),
       .inRows = true});
  return sets;
}

}  // namespace tutti::sim
