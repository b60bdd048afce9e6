// Sets that are compared with NCCL's model (tools/nccl_model), by the machine's specification alone.
#include "tools/sim/published.hpp"

namespace tutti::sim {
namespace {

using Pairs = std::vector<std::pair<double, double>>;

/// One process for all GPUs of a node (nccl-tests -g 8), or one each.
constexpr int kOneEach = 1, kAllInOne = 8;

nccl_model::Settings runBy(int release, int gpusPerProcess, const char* ways = "") {
  return {.release = release, .gpusPerProcess = gpusPerProcess, .ways = ways, .protocols = ""};
}

PublishedSet setOf(const char* name, const char* source, const char* machine, const nccl_model::Settings& settings) {
  return {.name = name,
          .source = source,
          .collective = "allreduce",
          .algorithms = "",
          .constantNames = {},
          .constants = {},
          .points = {},
          .specification = machine,
          .nccl = settings};
}

PublishedSet withTimes(PublishedSet set, int nodes, const Pairs& us) {
  for (const auto& [bytes, time] : us) set.points.push_back({nodes, bytes, time, false});
  return set;
}

PublishedSet withBandwidths(PublishedSet set, int nodes, const Pairs& busGBps) {
  const int ranks = nodes * set.ranksPerNode;
  for (const auto& [bytes, bus] : busGBps) set.points.push_back({nodes, bytes, allReduceUs(bytes, ranks, bus), false});
  return set;
}

PublishedSet h100Azure() {
  return withBandwidths(
      setOf("allreduce, 8 x H100, NCCL 2.18.5", "Azure's AI benchmarking guide, September 2024, in place",
            "machine nd-h100-v5", runBy(218, kAllInOne, "nvls")),
      1,
      {{1 * kK, .07},
       {4 * kK, .27},
       {16 * kK, .95},
       {64 * kK, 2.72},
       {256 * kK, 10.9},
       {512 * kK, 21.4},
       {1 * kM, 43.7},
       {2 * kM, 81.9},
       {4 * kM, 129},
       {8 * kM, 172},
       {16 * kM, 234},
       {32 * kM, 296},
       {64 * kM, 362},
       {128 * kM, 401},
       {256 * kM, 423},
       {512 * kM, 438},
       {1 * kG, 466},
       {8 * kG, 479}});
}

PublishedSet h200Azure() {
  return withBandwidths(
      setOf("allreduce, 8 x H200, NCCL 2.20.5", "Azure's AI benchmarking guide, September 2024, in place",
            "machine nd-h200-v5", runBy(220, kAllInOne, "nvls")),
      1,
      {{1 * kK, .06},
       {4 * kK, .23},
       {16 * kK, .93},
       {64 * kK, 3.72},
       {256 * kK, 14.8},
       {512 * kK, 29.4},
       {1 * kM, 53.0},
       {2 * kM, 88.8},
       {4 * kM, 138},
       {8 * kM, 182},
       {16 * kM, 240},
       {32 * kM, 301},
       {64 * kM, 368},
       {128 * kM, 412},
       {256 * kM, 432},
       {512 * kM, 443},
       {1 * kG, 468},
       {8 * kG, 480}});
}

PublishedSet h100P5() {
  return withTimes(
      setOf("allreduce, 8 x H100, p5.48xlarge",
            "aws-samples/awsome-distributed-training, aws-batch README, February 2026", "machine p5.48xlarge",
            runBy(230, kOneEach)),
      1, {{8, 12.9},        {1 * kK, 16.4},   {8 * kK, 16.9},  {32 * kK, 18.8}, {64 * kK, 19.1},  {128 * kK, 19.4},
          {256 * kK, 20.3}, {512 * kK, 21.2}, {1 * kM, 28.6},  {2 * kM, 43.5},  {4 * kM, 55.4},   {8 * kM, 84.3},
          {16 * kM, 124},   {32 * kM, 199},   {64 * kM, 327},  {128 * kM, 593}, {256 * kM, 1121}, {1 * kG, 4253},
          {2 * kG, 8463.7}, {4 * kG, 15791},  {16 * kG, 62239}});
}

PublishedSet h100Vllm() {
  return withTimes(setOf("allreduce, 8 x H100, under PyTorch", "vllm-project/vllm#42324, May 2026", "machine hgx-h100",
                         runBy(230, kOneEach)),
                   1,
                   {{512 * kK, 24},
                    {1 * kM, 25},
                    {2 * kM, 37},
                    {4 * kM, 50},
                    {8 * kM, 76},
                    {16 * kM, 121},
                    {32 * kM, 195},
                    {64 * kM, 316},
                    {128 * kM, 561}});
}

PublishedSet h100Msccl() {
  PublishedSet set =
      withTimes(setOf("allreduce, 1 and 2 nodes of 8 x H100", "microsoft/mscclpp, DSL documentation: NCCL's column",
                      "nodes $N; machine nd-h100-v5", runBy(226, kOneEach)),
                1, {{1 * kK, 15}, {1 * kM, 24}, {8 * kM, 79.9}, {64 * kM, 327}, {1 * kG, 3904}});
  set = withTimes(std::move(set), 2, {{1 * kK, 35}, {128 * kK, 50}, {256 * kK, 127}, {1 * kM, 89}});
  set.doubt = "on 2 nodes 256 KB takes longer than 1 MB";
  return set;
}

/// Of one node, by numbers of its GPUs.
PublishedSet byRanks(const char* name, const char* machine, const char* ways, double bytes,
                     const std::vector<std::pair<int, double>>& busGBps) {
  PublishedSet set =
      setOf(name, "stas00/ml-engineering, network/README.md, August 2026: nccl-tests", machine, runBy(227, kOneEach));
  set.nccl->ways = ways;
  for (const auto& [ranks, bus] : busGBps) {
    set.points.push_back({1, bytes, allReduceUs(bytes, ranks, bus), false, "", "allreduce", ranks});
  }
  return set;
}

constexpr const char *kH200Ranks = "machine p5en.48xlarge; ranks-per-node $R",
                     *kB200Ranks = "machine p6-b200.48xlarge; ranks-per-node $R";

PublishedSet h200Counts() {
  return byRanks("allreduce, 4 to 8 of 8 x H200, NCCL 2.27", kH200Ranks, "", 8 * kG,
                 {{4, 363.3}, {5, 414.2}, {6, 435.6}, {7, 460.0}, {8, 473.1}});
}

PublishedSet h200Rings() {
  return byRanks("allreduce, 4 to 8 of 8 x H200, no NVLS", kH200Ranks, "ring,tree", 8 * kG,
                 {{4, 363.3}, {5, 364.4}, {6, 365.1}, {7, 365.7}, {8, 365.6}});
}

PublishedSet b200Counts() {
  return byRanks("allreduce, 4 to 8 of 8 x B200, NCCL 2.27.7", kB200Ranks, "", 8 * kG,
                 {{4, 673.2}, {5, 677.8}, {6, 778.2}, {7, 811.2}, {8, 838.0}});
}

PublishedSet b200Rings() {
  return byRanks("allreduce, 4 to 8 of 8 x B200, no NVLS", kB200Ranks, "ring,tree", 8 * kG,
                 {{4, 673.8}, {5, 677.8}, {6, 677.8}, {7, 680.5}, {8, 682.2}});
}

PublishedSet a100Azure() {
  return withBandwidths(
      setOf("allreduce, 8 x A100, NCCL 2.18.5", "Azure's AI benchmarking guide, September 2024, in place",
            "machine nd-a100-v4", runBy(218, kAllInOne)),
      1,
      {{16 * kK, 0.67},
       {64 * kK, 2.7},
       {256 * kK, 10.1},
       {512 * kK, 19.2},
       {1 * kM, 36.2},
       {2 * kM, 53.5},
       {4 * kM, 71.4},
       {8 * kM, 90},
       {16 * kM, 109},
       {32 * kM, 133},
       {64 * kM, 167},
       {128 * kM, 174},
       {256 * kM, 214},
       {512 * kM, 222},
       {1 * kG, 228},
       {8 * kG, 232}});
}

PublishedSet a100Engineering() {
  PublishedSet set = withTimes(
      setOf("allreduce, 8 x A100", "stas00/ml-engineering, August 2026", "machine dgx-a100", runBy(218, kAllInOne)), 1,
      {{32 * kK, 43.8},
       {64 * kK, 46.8},
       {128 * kK, 51.8},
       {256 * kK, 61.4},
       {512 * kK, 80.4},
       {1 * kM, 102},
       {2 * kM, 101},
       {4 * kM, 102},
       {8 * kM, 134},
       {16 * kM, 277},
       {32 * kM, 424},
       {64 * kM, 685},
       {128 * kM, 1328},
       {256 * kM, 2421},
       {1 * kG, 8204},
       {16 * kG, 127997}});
  set.doubt = "1, 2 and 4 MB take the same 102 us; at 512 KB and 1 MB twice what Azure's A100 take";
  return set;
}

PublishedSet b200() {
  PublishedSet set = setOf("allreduce, 8 x B200, NCCL 2.27.7, calls alone",
                           "stas00/ml-engineering, network/README.md, August 2026: all_reduce_bench.py of PyTorch",
                           "machine p6-b200.48xlarge", runBy(227, kOneEach));
  set.nccl->alone = true;
  return withBandwidths(
      std::move(set), 1,
      {{32 * kK, 1.20},   {64 * kK, 2.17},   {128 * kK, 4.86},   {256 * kK, 9.54},   {512 * kK, 18.71},
       {1 * kM, 36.06},   {2 * kM, 63.09},   {4 * kM, 76.48},    {8 * kM, 126.49},   {16 * kM, 254.96},
       {32 * kM, 325.97}, {64 * kM, 400.60}, {128 * kM, 568.38}, {256 * kM, 646.11}, {512 * kM, 688.99},
       {1 * kG, 723.34},  {2 * kG, 734.97},  {4 * kG, 740.64},   {8 * kG, 839.07},   {16 * kG, 845.67}});
}

PublishedSet nvl72() {
  PublishedSet set = setOf("allreduce, GB200 NVL72, NCCL 2.26", "coreweave/nccl-tests#43, February 2025",
                           "machine gb200-nvl72", runBy(226, kOneEach));
  return withTimes(std::move(set), 1,
                   {{512 * kM, 1806.7}, {1 * kG, 3108.8}, {2 * kG, 5589.1}, {4 * kG, 10094}, {8 * kG, 20299}});
}

PublishedSet p5Pair() {
  return withTimes(
      setOf("allreduce, 2 nodes of p5.48xlarge, EFA",
            "aws-samples/awsome-distributed-training, nccl-tests README, September 2025",
            "nodes 2; machine p5.48xlarge", runBy(227, kOneEach)),
      2, {{8, 69},         {1 * kK, 69},    {8 * kK, 81},    {32 * kK, 112},  {64 * kK, 135},   {128 * kK, 109},
          {256 * kK, 128}, {512 * kK, 124}, {1 * kM, 123},   {2 * kM, 147},   {4 * kM, 169},    {8 * kM, 205},
          {16 * kM, 298},  {32 * kM, 440},  {64 * kM, 602},  {128 * kM, 870}, {256 * kM, 1468}, {512 * kM, 2559},
          {1 * kG, 4608},  {2 * kG, 9075},  {16 * kG, 66132}});
}

PublishedSet p4dePair() {
  PublishedSet set =
      withTimes(setOf("allreduce, 2 nodes of p4de.24xlarge, EFA",
                      "aws-samples/awsome-distributed-training, nccl-tests README, September 2025",
                      "nodes 2; machine p4d.24xlarge", runBy(227, kOneEach)),
                2, {{8, 164},         {1 * kK, 165},    {8 * kK, 176},     {32 * kK, 225},  {64 * kK, 227},
                    {128 * kK, 230},  {256 * kK, 238},  {512 * kK, 260},   {1 * kM, 309},   {2 * kM, 433},
                    {4 * kM, 534},    {8 * kM, 763},    {16 * kM, 1192},   {32 * kM, 1540}, {64 * kM, 2645},
                    {128 * kM, 3913}, {256 * kM, 7202}, {512 * kM, 13552}, {1 * kG, 26217}, {2 * kG, 51406}});
  return set;
}

/// Three of the rows below 512 bytes, which all take about the same.  No larger sizes were at hand.
PublishedSet p6Pair() {
  return withTimes(setOf("allreduce, 2 nodes of p6-b200.48xlarge, EFA", "dstackai/dstack#3961, June 2026",
                         "nodes 2; machine p6-b200.48xlarge", runBy(230, kOneEach)),
                   2, {{8, 50.58}, {64, 55.60}, {256, 57.14}});
}

/// From 1 GB on: below, 0.4 ms by which ranks start apart are most of a call alone (6 ms for 32 KB).
PublishedSet p6Four() {
  PublishedSet set = setOf("allreduce, 4 nodes of p6-b200.48xlarge, EFA, calls alone",
                           "stas00/ml-engineering, network/README.md, August 2026: all_reduce_bench.py of PyTorch",
                           "nodes 4; machine p6-b200.48xlarge", runBy(227, kOneEach));
  set.nccl->alone = true;
  return withBandwidths(std::move(set), 4,
                        {{1 * kG, 361.99}, {2 * kG, 372.42}, {4 * kG, 377.34}, {8 * kG, 380.39}, {16 * kG, 381.80}});
}

PublishedSet uccl() {
  PublishedSet set = setOf("allreduce, 6 nodes of 8 x H100, RoCE", "uccl-project/uccl: NCCL's column, busbw",
                           "nodes 6; machine hgx-h100", runBy(220, kOneEach));
  set.nccl->ways = "ring";
  set.nccl->protocols = "Simple";
  set.doubt = "256 MB gets half of what 128 MB gets: the network is congested from there on";
  return withBandwidths(std::move(set), 6,
                        {{1 * kM, 3},
                         {4 * kM, 12},
                         {8 * kM, 28},
                         {16 * kM, 56},
                         {32 * kM, 109},
                         {64 * kM, 160},
                         {128 * kM, 173},
                         {256 * kM, 93},
                         {512 * kM, 141},
                         {1 * kG, 185}});
}

PublishedSet sixteenNodes() {
  return withTimes(setOf("allreduce, 16 nodes of 8 x H100, NCCL 2.20.5", "NVIDIA/nccl#1469, October 2024",
                         "nodes 16; machine hgx-h100", runBy(220, kOneEach)),
                   16, {{128, 62}, {1 * kK, 73}, {2 * kK, 77}});
}

PublishedSet sharp() {
  PublishedSet set = setOf("allreduce, 8 nodes of 8 x H100, SHARP", "coreweave/nccl-tests, busbw",
                           "nodes 8; machine hgx-h100", runBy(226, kOneEach));
  set.nccl->sharp = true;
  return withBandwidths(std::move(set), 8, {{512 * kM, 356}, {8 * kG, 387}});
}

}  // namespace

std::vector<PublishedSet> ncclSets() {
  return {h100Azure(), h200Azure(),       h100P5(), h100Vllm(),     h100Msccl(), h200Counts(), h200Rings(),
          a100Azure(), a100Engineering(), b200(),   b200Counts(),   b200Rings(), nvl72(),      p5Pair(),
          p4dePair(),  p6Pair(),          p6Four(), sixteenNodes(), uccl(),      sharp()};
}

}  // namespace tutti::sim
