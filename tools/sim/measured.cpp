// Allreduces of Tutti itself on the recorded machine: perf/results/allreduce-2core-vm.txt (2 and 4 ranks, the faster of
// in place and out of place) and oracle-2core-vm.txt (8 ranks, the median of rounds), with the algorithm that ran.
#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

/// Two cores do everything: what a call and a message cost them, and how fast they copy (each message twice).  Not
/// fitted: what a core's turn costs (perf/results/limits-2core-vm.txt, yield_same_cpu), and operands of reductions and
/// local copies, of near and far memory (calibration of that machine, limits).
constexpr const char* kNearText =
    "machine package:1 core:2; ranks-per-node $R; cores 2; turn 0.945; launch $a; near p overhead:$b receive:$b "
    "latency:$c copy:$d gbps:1000000; reduce 33.6; copy 21.5; slice 128K";
constexpr const char* kFarText =
    "machine package:1 core:2; ranks-per-node $R; cores 2; turn 0.945; launch $a; near p overhead:$b receive:$b "
    "latency:$c copy:$d gbps:1000000; reduce 11.2; copy 9.9; slice 128K";
const std::vector<const char*> kHostConstants = {"launch us", "message: us of either end's core", "message: latency us",
                                                 "GB/s of copies"};

struct MeasuredRow {
  double bytes, us;
  const char* algorithm;
};

/// Every second point is fitted.
PublishedSet setOf(const char* name, int ranks, bool far, std::vector<double> constants,
                   const std::vector<MeasuredRow>& rows) {
  PublishedSet set = {.name = name,
                      .source = "perf/results, two vCPUs of a 2.5 GHz Xeon",
                      .collective = "allreduce",
                      .algorithms = "",
                      .cluster = far ? kFarText : kNearText,
                      .constantNames = kHostConstants,
                      .constants = std::move(constants),
                      .points = {},
                      .ranksPerNode = ranks};
  bool fitted = true;
  for (const MeasuredRow& row : rows) {
    set.points.push_back({1, row.bytes, row.us, fitted, row.algorithm});
    fitted = !fitted;
  }
  return set;
}

}  // namespace

std::vector<PublishedSet> measuredSets() {
  constexpr const char *kDoubling = "recursivedoubling", *kRing = "ring", *kTwoShot = "twoshot", *kOneShot = "oneshot",
                       *kServer = "paramserver";
  return {
      setOf("allreduce, Tutti, shm, 2 ranks, up to 128 KiB", 2, false, {0.1563, 0.1134, 0.2417, 15.58},
            {{8, 0.52, kDoubling},
             {32, 0.48, kDoubling},
             {128, 0.78, kDoubling},
             {512, 0.70, kDoubling},
             {2 * kK, 1.07, kDoubling},
             {8 * kK, 3.03, kDoubling},
             {32 * kK, 7.18, kRing},
             {128 * kK, 22.50, kRing}}),
      setOf("allreduce, Tutti, shm, 2 ranks, from 512 KiB", 2, true, {0.0001, 0.009095, 0.02279, 26.07},
            {{512 * kK, 153.24, kServer},
             {2 * kM, 436.52, kRing},
             {8 * kM, 2218.30, kRing},
             {32 * kM, 9307.29, kRing},
             {128 * kM, 38357.7, kRing}}),
      setOf("allreduce, Tutti, shm, 4 ranks, up to 128 KiB", 4, false, {1.148, 0.02056, 0.531, 12.9},
            {{8, 4.46, kOneShot},
             {32, 4.50, kOneShot},
             {128, 6.63, kOneShot},
             {512, 5.70, kOneShot},
             {2 * kK, 7.43, kServer},
             {8 * kK, 9.68, kServer},
             {32 * kK, 24.63, kTwoShot},
             {128 * kK, 97.66, kTwoShot}}),
      setOf("allreduce, Tutti, shm, 4 ranks, from 512 KiB", 4, true, {0.0001, 0.0001, 0.11, 9.685},
            {{512 * kK, 324.66, kTwoShot},
             {2 * kM, 1868.74, kTwoShot},
             {8 * kM, 7452.49, kTwoShot},
             {32 * kM, 29436.4, kTwoShot},
             {128 * kM, 108357, kTwoShot}}),
      setOf("allreduce, Tutti, shm, 8 ranks", 8, false, {0.0001, 0.0001, 0.0001, 6.575},
            {{8, 8.26, kOneShot},
             {1 * kK, 14.55, kServer},
             {8 * kK, 27.79, kServer},
             {64 * kK, 146.96, kTwoShot},
             {512 * kK, 1395.89, kTwoShot},
             {4 * kM, 11295.93, kTwoShot}}),
      setOf("allreduce, Tutti, tcp, 2 ranks, up to 128 KiB", 2, false, {0.07784, 3.4, 1.6, 8.009},
            {{8, 8.29, kDoubling},
             {32, 8.21, kDoubling},
             {128, 8.47, kDoubling},
             {512, 8.92, kDoubling},
             {2 * kK, 9.45, kDoubling},
             {8 * kK, 12.76, kDoubling},
             {32 * kK, 19.08, kDoubling},
             {128 * kK, 59.13, kDoubling}}),
      setOf("allreduce, Tutti, tcp, 2 ranks, from 512 KiB", 2, true, {0.0001, 3.4, 0.8687, 7.846},
            {{512 * kK, 209.83, kRing},
             {2 * kM, 841.82, kRing},
             {8 * kM, 3621.11, kRing},
             {32 * kM, 15274.3, kRing},
             {128 * kM, 75157.3, kRing}}),
      setOf("allreduce, Tutti, tcp, 4 ranks, up to 128 KiB", 4, false, {1.889, 4.42, 1.6, 7.976},
            {{8, 43.10, kDoubling},
             {32, 42.50, kDoubling},
             {128, 42.72, kDoubling},
             {512, 42.12, kDoubling},
             {2 * kK, 45.41, kDoubling},
             {8 * kK, 53.62, kDoubling},
             {32 * kK, 79.68, kDoubling},
             {128 * kK, 240.32, kDoubling}}),
      setOf("allreduce, Tutti, tcp, 4 ranks, from 512 KiB", 4, true, {76.4, 7.111, 1.6, 6.035},
            {{512 * kK, 915.12, kTwoShot},
             {2 * kM, 3351.63, kTwoShot},
             {8 * kM, 13526.9, kTwoShot},
             {32 * kM, 56819.0, kTwoShot},
             {128 * kM, 181561, kTwoShot}}),
  };
}

}  // namespace tutti::sim
