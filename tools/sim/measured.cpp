// Allreduces of Tutti itself on the recorded machine: perf/results/allreduce-2core-vm.txt (2 and 4 ranks, the faster of
// in place and out of place) and oracle-2core-vm.txt (8 ranks, the median of rounds), with the algorithm that ran.
#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

/// Ranks of a host share its memory: what limits them is the protocol, whose figures are that calibration's (of one
/// message, and of streams on near and far memory) until --fit looks for better ones.
constexpr const char* kHostText =
    "machine package:1 core:2; ranks-per-node $R; launch $a; near alone latency:$b gbps:$c most:16384; "
    "near stream latency:$b gbps:$d most:524288; near far latency:$b gbps:$e; reduce 33.6; copy 21.5; slice 8G";
const std::vector<const char*> kHostConstants = {"launch us", "latency us", "GB/s, messages up to 16 KiB",
                                                 "GB/s, up to 512 KiB", "GB/s, larger"};

struct MeasuredRow {
  double bytes, us;
  const char* algorithm;
};

/// Every second point is fitted.
PublishedSet setOf(const char* name, int ranks, std::vector<double> constants, const std::vector<MeasuredRow>& rows) {
  PublishedSet set = {.name = name,
                      .source = "perf/results, two vCPUs of a 2.5 GHz Xeon",
                      .collective = "allreduce",
                      .algorithms = "",
                      .cluster = kHostText,
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
  const std::vector<double> shm = {0.06, 0.22, 8.8, 5.29, 2.80}, tcp = {0.06, 5.02, 5.13, 5.13, 5.13};
  return {
      setOf("allreduce, Tutti, shm, 2 ranks", 2, shm,
            {{8, 0.52, kDoubling},
             {32, 0.48, kDoubling},
             {128, 0.78, kDoubling},
             {512, 0.70, kDoubling},
             {2 * kK, 1.07, kDoubling},
             {8 * kK, 3.03, kDoubling},
             {32 * kK, 7.18, kRing},
             {128 * kK, 22.50, kRing},
             {512 * kK, 153.24, kServer},
             {2 * kM, 436.52, kRing},
             {8 * kM, 2218.30, kRing},
             {32 * kM, 9307.29, kRing},
             {128 * kM, 38357.7, kRing}}),
      setOf("allreduce, Tutti, shm, 4 ranks", 4, shm,
            {{8, 4.46, kOneShot},
             {32, 4.50, kOneShot},
             {128, 6.63, kOneShot},
             {512, 5.70, kOneShot},
             {2 * kK, 7.43, kServer},
             {8 * kK, 9.68, kServer},
             {32 * kK, 24.63, kTwoShot},
             {128 * kK, 97.66, kTwoShot},
             {512 * kK, 324.66, kTwoShot},
             {2 * kM, 1868.74, kTwoShot},
             {8 * kM, 7452.49, kTwoShot},
             {32 * kM, 29436.4, kTwoShot},
             {128 * kM, 108357, kTwoShot}}),
      setOf("allreduce, Tutti, shm, 8 ranks", 8, shm,
            {{8, 8.26, kOneShot},
             {1 * kK, 14.55, kServer},
             {8 * kK, 27.79, kServer},
             {64 * kK, 146.96, kTwoShot},
             {512 * kK, 1395.89, kTwoShot},
             {4 * kM, 11295.93, kTwoShot}}),
      setOf("allreduce, Tutti, tcp, 2 ranks", 2, tcp,
            {{8, 8.29, kDoubling},
             {32, 8.21, kDoubling},
             {128, 8.47, kDoubling},
             {512, 8.92, kDoubling},
             {2 * kK, 9.45, kDoubling},
             {8 * kK, 12.76, kDoubling},
             {32 * kK, 19.08, kDoubling},
             {128 * kK, 59.13, kDoubling},
             {512 * kK, 209.83, kRing},
             {2 * kM, 841.82, kRing},
             {8 * kM, 3621.11, kRing},
             {32 * kM, 15274.3, kRing},
             {128 * kM, 75157.3, kRing}}),
      setOf("allreduce, Tutti, tcp, 4 ranks", 4, tcp,
            {{8, 43.10, kDoubling},
             {32, 42.50, kDoubling},
             {128, 42.72, kDoubling},
             {512, 42.12, kDoubling},
             {2 * kK, 45.41, kDoubling},
             {8 * kK, 53.62, kDoubling},
             {32 * kK, 79.68, kDoubling},
             {128 * kK, 240.32, kDoubling},
             {512 * kK, 915.12, kTwoShot},
             {2 * kM, 3351.63, kTwoShot},
             {8 * kM, 13526.9, kTwoShot},
             {32 * kM, 56819.0, kTwoShot},
             {128 * kM, 181561, kTwoShot}}),
  };
}

}  // namespace tutti::sim
