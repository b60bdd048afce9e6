#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

PublishedSet nccl218() {
  return {
      .name = "allreduce, 8 x H100, NCCL 2.18.3",
      .source = "measured on Azure ND H100 v5 for the MSCCL executor, fp16 in place",
      .collective = "allreduce",
      .algorithms = "ring",
      .cluster =
          "machine gpu:8 nvlink:18x$a; near small latency:$c efficiency:$d; near large latency:$e; launch $b; "
          "reduce 1000000; slice 8G",
      .constantNames = {"GB/s per NVLink (in effect: large sizes are reduced in the switch)", "launch us",
                        "small: latency us", "small: efficiency", "large: latency us"},
      .constants = {24.701, 9.4962, 0.35726, 0.16659, 1.6968},
      .points = {{1, 1 * kK, 13.12, true},
                 {1, 4 * kK, 15.28, false},
                 {1, 16 * kK, 16.64, true},
                 {1, 64 * kK, 20.0, false},
                 {1, 256 * kK, 20.5, true},
                 {1, 1 * kM, 31.94, false},
                 {1, 4 * kM, 49.28, true},
                 {1, 16 * kM, 116, false},
                 {1, 64 * kM, 317.4, true},
                 {1, 256 * kM, 1079, false},
                 {1, 1 * kG, 4028.7, true}},
      .specification = "machine nd-h100-v5",
      .nccl = nccl_model::Settings{.release = 218},
  };
}

PublishedSet msccl() {
  return {
      .name = "allreduce, 8 x H100, MSCCL",
      .source = "the same machine with MSCCL's one-shot and two-shot plans",
      .collective = "allreduce",
      .algorithms = "oneshot,twoshot,ring",
      .cluster =
          "machine gpu:8 nvlink:18x$a; near small latency:$c efficiency:$d; near large latency:$e; launch $b; "
          "reduce 1000000; slice 8G; in-flight 8",
      .constantNames = {"GB/s per NVLink", "launch us", "small: latency us", "small: efficiency", "large: latency us"},
      .constants = {13.716, 5.3829, 1.8488, 0.46709, 4.2712},
      .points = {{1, 1 * kK, 7.50, true},
                 {1, 4 * kK, 7.49, false},
                 {1, 16 * kK, 8.03, true},
                 {1, 64 * kK, 10.36, false},
                 {1, 256 * kK, 12.86, true},
                 {1, 1 * kM, 22.31, false},
                 {1, 4 * kM, 43.97, true},
                 {1, 16 * kM, 115.7, false}},
      .specification = "machine nd-h100-v5; launch 6.6",  // as NCCL's kernels by LL, of which MSCCL's are some
  };
}

PublishedSet allGather() {
  return {
      .name = "allgather, 8 x H100, NCCL 2.18.3",
      .source = "as the first",
      .collective = "allgather",
      .algorithms = "ring",
      .cluster =
          "machine gpu:8 nvlink:18x$a; near small latency:$c efficiency:$d; near large latency:$e; launch $b; "
          "reduce 1000000; slice 8G",
      .constantNames = {"GB/s per NVLink", "launch us", "small: latency us", "small: efficiency", "large: latency us"},
      .constants = {19.715, 6.5, 0.42695, 0.04781, 1.321},
      .points = {{1, 1 * kK, 9.54, true},
                 {1, 64 * kK, 12.87, true},
                 {1, 1 * kM, 18.33, true},
                 {1, 16 * kM, 67.2, false},
                 {1, 256 * kM, 699.5, false},
                 {1, 1 * kG, 2663.8, true}},
      .specification = "machine nd-h100-v5",
      .nccl = nccl_model::Settings{.release = 218},
  };
}

PublishedSet h200() {
  PublishedSet set = {
      .name = "allreduce, 8 x H200, NCCL 2.27.7, calls alone",
      .source = "stas00/ml-engineering, network/README.md, August 2026: all_reduce_bench.py of PyTorch",
      .collective = "allreduce",
      .algorithms = "ring",
      .cluster =
          "machine gpu:8 nvlink:18x$a; near small latency:$c efficiency:$d; near large latency:$e; launch $b; "
          "reduce 1000000; slice 32G",
      .constantNames = {"GB/s per NVLink (in effect)", "launch us", "small: latency us", "small: efficiency",
                        "large: latency us"},
      .constants = {26.322, 20.331, 1.3, 0.53695, 4.9069},
      .points = {},
      .specification = "machine p5en.48xlarge",
      .nccl = nccl_model::Settings{.release = 227, .alone = true},
  };
  const std::pair<double, double> busbw[] = {
      {32 * kK, 1.44},   {64 * kK, 2.93},   {128 * kK, 5.73},  {256 * kK, 11.74}, {512 * kK, 23.94}, {1 * kM, 39.93},
      {2 * kM, 64.5},    {4 * kM, 107.2},   {8 * kM, 155.5},   {16 * kM, 219.9},  {32 * kM, 275.8},  {64 * kM, 346.5},
      {128 * kM, 401.9}, {256 * kM, 436.2}, {512 * kM, 450.3}, {1 * kG, 463.6},   {4 * kG, 473.1},   {16 * kG, 482.3}};
  bool fitted = true;
  for (const auto& [bytes, bus] : busbw) {
    set.points.push_back({1, bytes, allReduceUs(bytes, 8, bus), fitted});
    fitted = !fitted;
  }
  return set;
}

PublishedSet nicRatio() {
  PublishedSet set = {
      .name = "allreduce, nodes of 8 x H100, NCCL rings",
      .source = "SimAI's nic_ratio table (achieved share of 388 GB/s), fitted on 2 and 16 nodes",
      .collective = "allreduce",
      .algorithms = "ring",
      .cluster =
          "nodes $N; machine gpu:8 nvlink:18x20.6 nic:8x$a pcie:64x16; near small latency:$d efficiency:0.5; "
          "near large latency:$e; far small latency:$b efficiency:0.5; far large latency:$c; launch 10; "
          "reduce 1000000; slice 8G",
      .constantNames = {"GB/s per adapter", "far, small: latency us", "far, large: latency us",
                        "near, small: latency us", "near, large: latency us"},
      .constants = {46.379, 29.703, 25.577, 3.1719, 18.008},
      .points = {},
      .specification = "nodes $N; machine hgx-h100",
      .nccl = nccl_model::Settings{.release = 220, .ways = "ring", .protocols = "Simple"},
      .doubt = "64 nodes take longer for 64 MB than for 256 MB; 388 GB/s are assumed",
  };
  const double sizes[] = {16 * kM, 64 * kM, 256 * kM, 1 * kG, 4 * kG, 16 * kG};
  const std::pair<int, std::vector<double>> ratios[] = {{2, {.32, .50, .85, .92, .95, .96}},
                                                        {4, {.24, .53, .77, .93, .95, .96}},
                                                        {16, {.05, .21, .57, .76, .95, .96}},
                                                        {64, {.021, .051, .209, .563, .755, .958}}};
  for (const auto& [nodes, row] : ratios) {
    for (size_t i = 0; i < row.size(); ++i) {
      set.points.push_back(
          {nodes, sizes[i], allReduceUs(sizes[i], 8 * nodes, row[i] * 388), nodes == 2 || nodes == 16});
    }
  }
  return set;
}

}  // namespace

double allReduceUs(double bytes, int ranks, double busGBps) {
  return bytes * 2 * (ranks - 1) / ranks / (busGBps * 1e3);
}

std::vector<PublishedSet> publishedSets() {
  std::vector<PublishedSet> sets = {nccl218(), msccl(), allGather(), h200(), nicRatio()};
  for (PublishedSet& set : ncclSets()) sets.push_back(std::move(set));
  for (PublishedSet& set : measuredSets()) sets.push_back(std::move(set));
  return sets;
}

}  // namespace tutti::sim
