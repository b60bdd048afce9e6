// NCCL's model keeps to what any machine keeps to, and chooses as NCCL is known to.
#include <catch2/catch.hpp>

#include <cmath>
#include <tuple>

#include "tests/unit/sim/support.hpp"
#include "tools/nccl_model/predict.hpp"

using namespace tutti;
using namespace tutti::nccl_model;

namespace {

Machine machineFor(const std::string& text) {
  auto machine = machineOf(sim::test::networkOf(sim::test::clusterOf(text)));
  CAPTURE(text, machine.status().message());
  REQUIRE(machine.ok());
  return *machine;
}

Prediction predictionOf(const Machine& machine, Collective collective, double bytes, const Settings& settings = {}) {
  auto prediction = predict(machine, collective, bytes, settings);
  CAPTURE(prediction.status().message());
  REQUIRE(prediction.ok());
  return *prediction;
}

constexpr Collective kModelled[] = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                    Collective::Broadcast, Collective::Reduce,    Collective::AllToAll};
const char* const kMachines[] = {"machine hgx-h100",
                                 "machine hgx-b200",
                                 "machine dgx-a100",
                                 "machine dgx-2",
                                 "machine gb200-nvl72",
                                 "machine gpu:4 sm:80 pcie:32x16",
                                 "machine gpu:4 nvlink:6x20 nvswitch:0 sm:80",
                                 "nodes 2; machine p5.48xlarge",
                                 "nodes 2; machine p4d.24xlarge",
                                 "nodes 3; machine p5en.48xlarge",
                                 "nodes 2; machine hgx-b200",
                                 "nodes 16; machine hgx-b200",
                                 "nodes 4; machine dgx-a100",
                                 "nodes 64; machine hgx-h100; fabric fat-tree leaf:16 oversubscription:2",
                                 "nodes 3; machine gpu:1 nic:1x12"};
constexpr double kMost = 17179869184.0;

/// Microseconds below which the links alone cannot be.
double leastUs(const Machine& m, Collective collective, double bytes, const Candidate& by) {
  const double p = m.ranks(), nodes = m.nodes;
  double out = 1, across = 1;  // of a GPU, of a node: parts of the bytes
  switch (collective) {
    case Collective::AllReduce: {
      const bool inSwitch = by.way == Way::Nvls || by.way == Way::NvlsTree || by.way == Way::NvlsSharp;
      out = inSwitch ? 1 : 2 * (p - 1) / p;
      across = by.way == Way::NvlsSharp ? 1 : 2 * (nodes - 1) / nodes;
      break;
    }
    case Collective::AllGather:
    case Collective::ReduceScatter:
      out = by.way == Way::Nvls ? 1 / p : (p - 1) / p;
      across = (nodes - 1) / nodes;
      break;
    case Collective::AllToAll:
      out = (m.perNode - 1) / p;
      across = m.perNode * (nodes - 1) / nodes;
      break;
    default: break;
  }
  const double inside = m.perNode == 1 ? 0 : bytes * out / (m.portGBps * 1e3);
  return nodes == 1 ? inside : std::max(inside, bytes * across / (m.netGBps * 1e3));
}

}  // namespace

TEST_CASE("twice the bytes never take less, and nothing is faster than its links") {
  for (const char* text : kMachines) {
    const Machine machine = machineFor(text);
    for (const Collective collective : kModelled) {
      for (const int release : {218, 227, 230}) {
        std::vector<double> before;
        double chosenBefore = 0;
        for (double bytes = 8; bytes <= kMost; bytes *= 2) {
          CAPTURE(text, collectiveKey(collective), release, bytes);
          const Prediction p = predictionOf(machine, collective, bytes, {.release = release});
          before.resize(p.candidates.size());
          for (size_t i = 0; i < p.candidates.size(); ++i) {
            const Candidate& c = p.candidates[i];
            CAPTURE(nameOf(c.way), nameOf(c.protocol));
            CHECK(c.time.us() >= leastUs(machine, collective, bytes, c));
            // Channels are whole: 72 ranks have one for 512 KiB and three for 1 MiB.
            CHECK(c.time.us() >= 0.8 * before[i]);
            before[i] = c.time.us();
          }
          // NCCL goes by its estimates, and may leave a way too late.
          CHECK(p.us() >= 0.6 * chosenBefore);
          chosenBefore = p.us();
        }
      }
    }
  }
}

TEST_CASE("more nodes and slower links never take less") {
  const auto usOf = [](const std::string& text, double bytes) {
    return predictionOf(machineFor(text), Collective::AllReduce, bytes, {.ways = "ring"}).us();
  };
  for (double bytes = 1 << 10; bytes <= kMost; bytes *= 16) {
    CAPTURE(bytes);
    double before = 0;
    for (const int nodes : {2, 4, 8, 32, 128}) {
      const double us = usOf(cat("nodes ", nodes, "; machine hgx-h100"), bytes);
      CHECK(us >= before);
      before = us;
    }
    before = 0;
    for (const int rate : {96, 48, 24, 12, 6}) {
      const double us = usOf(cat("nodes 4; machine hgx-h100 nic:8x", rate), bytes);
      CHECK(us >= before);
      before = us;
    }
    before = 0;
    for (const int latency : {0, 10, 75}) {
      const double us = usOf(cat("nodes 4; machine hgx-h100 nic-latency:", latency), bytes);
      CHECK(us >= before);
      before = us;
    }
    before = 0;
    for (const int links : {18, 12, 6, 2}) {
      const double us = usOf(cat("machine hgx-h100 nvswitch:1 nvlink:", links, "x20.6"), bytes);
      CHECK(us >= before);
      before = us;
    }
  }
}

TEST_CASE("a call of no bytes takes its latencies") {
  for (const char* text : kMachines) {
    const Machine machine = machineFor(text);
    for (const Collective collective : kModelled) {
      CAPTURE(text, collectiveKey(collective));
      for (const Candidate& c : predictionOf(machine, collective, 0).candidates) {
        CHECK(c.time.us() > 0);
        CHECK(c.time.dataUs <= c.time.us());
        CHECK(std::isfinite(c.estimateUs));
      }
    }
  }
}

TEST_CASE("more ranks of a node never take less by a ring") {
  for (const char* protocol : {"LL", "LL128", "Simple"}) {
    for (double bytes = 1 << 10; bytes <= kMost; bytes *= 16) {
      double before = 0;
      for (const int gpus : {2, 3, 4, 6, 8}) {
        CAPTURE(protocol, bytes, gpus);
        const Machine machine = machineFor(cat("machine hgx-h100; ranks-per-node ", gpus));
        const double us =
            predictionOf(machine, Collective::AllReduce, bytes, {.ways = "ring", .protocols = protocol}).us();
        CHECK(us >= before);
        before = us;
      }
    }
  }
}

TEST_CASE("the algorithm is the one that NCCL is known to choose") {
  struct Row {
    const char* machine;
    int release;
    double bytes;
    Way way;
    Protocol protocol;
  };
  constexpr double kM = 1 << 20;
  // 8 x H200, NCCL 2.27: rings by LL up to 1 MiB, the switch from 2 MiB on, as its tuning log says.
  const auto row =
      GENERATE(values<Row>({{"machine hgx-h200", 227, 32 << 10, Way::Ring, Protocol::LL},
                            {"machine hgx-h200", 227, kM, Way::Ring, Protocol::LL},
                            {"machine hgx-h200", 227, 2 * kM, Way::Nvls, Protocol::Simple},
                            {"machine hgx-h200", 227, 1024 * kM, Way::Nvls, Protocol::Simple},
                            // By numbers of GPUs, as its log says on p5en (H200) and p6-b200.
                            {"machine hgx-h200; ranks-per-node 4", 227, 8192 * kM, Way::Ring, Protocol::Simple},
                            {"machine hgx-h200; ranks-per-node 5", 227, 8192 * kM, Way::Nvls, Protocol::Simple},
                            {"machine hgx-b200; ranks-per-node 5", 227, 8192 * kM, Way::Ring, Protocol::Simple},
                            {"machine hgx-b200; ranks-per-node 6", 227, 8192 * kM, Way::Nvls, Protocol::Simple},
                            {"machine dgx-a100", 218, 8, Way::Ring, Protocol::LL},
                            {"machine dgx-a100", 218, 1024 * kM, Way::Ring, Protocol::Simple},
                            {"nodes 16; machine hgx-h100", 220, 128, Way::Tree, Protocol::LL},
                            {"machine gpu:8 sm:80 pcie:16x16", 230, 1024 * kM, Way::Ring, Protocol::Simple}}));
  CAPTURE(row.machine, row.bytes);
  const Prediction p =
      predictionOf(machineFor(row.machine), Collective::AllReduce, row.bytes, {.release = row.release});
  CHECK(std::string(nameOf(p.best().way)) == std::string(nameOf(row.way)));
  CHECK(std::string(nameOf(p.best().protocol)) == std::string(nameOf(row.protocol)));
}

TEST_CASE("adapters count that are some rank's nearest") {
  CHECK(machineFor("nodes 2; machine hgx-h100").netGBps == Approx(8 * 48));
  CHECK(machineFor("nodes 2; machine hgx-h100; ranks-per-node 1").netGBps == Approx(48));
  CHECK(machineFor("nodes 2; machine p4d.24xlarge").netGBps == Approx(4 * 12));
  CHECK(machineFor("nodes 64; machine hgx-h100; fabric fat-tree leaf:16 oversubscription:2").netGBps == Approx(4 * 48));
}

TEST_CASE("channels are as many as NCCL's logs tell") {
  struct Row {
    const char* machine;
    int channels;
  };
  // 8 x A100: NVIDIA/nccl-tests#143; 8 x H100 and two nodes of them: NVIDIA/nccl#1357 and its like.
  const auto row =
      GENERATE(values<Row>({{"machine dgx-a100", 24}, {"machine hgx-h100", 24}, {"nodes 2; machine hgx-h100", 16}}));
  CAPTURE(row.machine);
  CHECK(ringsOf(machineFor(row.machine)).used == row.channels);
}

TEST_CASE("adapters are told apart by their PCI device, and bring their plugin's settings") {
  const Machine p4 = machineFor("nodes 2; machine p4d.24xlarge"), p5 = machineFor("nodes 2; machine p5.48xlarge");
  CHECK(std::string(p4.net->name) == "EFA of P4");
  CHECK(std::string(p5.net->name) == "EFA of P5");
  CHECK(std::string(machineFor("nodes 2; machine hgx-h100").net->name) == "InfiniBand");
  CHECK(slotBytes(p5) == 2 * slotBytes(machineFor("machine hgx-h100")));
  // Lines of 128 bytes may come apart: neither LL nor LL128.
  for (const Candidate& c : predictionOf(p4, Collective::AllReduce, 1024).candidates)
    CHECK(c.protocol == Protocol::Simple);
  // Half and all of a chunk's bytes take the same rate, and what is more than a packet is announced.
  const auto us = [&](const Machine& machine, double bytes) {
    return predictionOf(machine, Collective::AllReduce, bytes, {.ways = "tree"}).us();
  };
  CHECK(us(p4, 8193) > us(p4, 8192) + 4 * p4.netUs);
  CHECK(us(p4, 8193) < us(p4, 8192) + 4 * p4.netUs + 1);
}

TEST_CASE("a latency that a plugin tells is chosen by, and is not what a hop takes") {
  Machine machine = machineFor("nodes 4; machine hgx-h100 nic-latency:15");
  NetPart told = *machine.net;
  told.toldUs = 75;
  const Prediction before = predictionOf(machine, Collective::AllReduce, 1 << 20);
  machine.net = &told;
  const Prediction after = predictionOf(machine, Collective::AllReduce, 1 << 20);
  REQUIRE(before.candidates.size() == after.candidates.size());
  for (size_t i = 0; i < before.candidates.size(); ++i) {
    CHECK(after.candidates[i].time.us() == before.candidates[i].time.us());
    CHECK(after.candidates[i].estimateUs > before.candidates[i].estimateUs);
  }
}

TEST_CASE("a plugin's own choice is taken, and only where it has one") {
  constexpr double kM = 1 << 20;
  const auto row = GENERATE(values<std::tuple<const char*, double, Way, Protocol>>(
      {{"nodes 2; machine p5.48xlarge", 8, Way::Tree, Protocol::LL128},
       {"nodes 2; machine p5.48xlarge", 30 * kM, Way::Tree, Protocol::LL128},
       {"nodes 2; machine p5.48xlarge", 30 * kM + 1, Way::NvlsTree, Protocol::Simple},
       {"nodes 8; machine p5.48xlarge", 112 * kM, Way::Tree, Protocol::LL128},
       {"nodes 2; machine p6-b200.48xlarge", 384 << 10, Way::Tree, Protocol::LL},
       {"nodes 2; machine p6-b200.48xlarge", 4718592, Way::Tree, Protocol::LL128},
       {"nodes 2; machine p6-b200.48xlarge", 4718593, Way::NvlsTree, Protocol::Simple},
       {"nodes 4; machine p6-b200.48xlarge", 64 * kM, Way::Ring, Protocol::LL128},
       {"nodes 4; machine p6-b200.48xlarge", 256 * kM, Way::NvlsTree, Protocol::Simple},
       {"nodes 4; machine p6-b200.48xlarge", 1024 * kM, Way::Ring, Protocol::Simple},
       {"nodes 8; machine p6-b200.48xlarge", 48 * kM, Way::NvlsTree, Protocol::Simple},
       {"nodes 2; machine hgx-h100", 8, Way::Tree, Protocol::LL},
       {"machine p5.48xlarge", 8, Way::Ring, Protocol::LL}}));
  const auto& [text, bytes, way, protocol] = row;
  CAPTURE(text, bytes);
  const Prediction p = predictionOf(machineFor(text), Collective::AllReduce, bytes, {.release = 227});
  CHECK(std::string(nameOf(p.best().way)) == std::string(nameOf(way)));
  CHECK(std::string(nameOf(p.best().protocol)) == std::string(nameOf(protocol)));
  CHECK(p.byPlugin ==
        (std::string(text).find("xlarge") != std::string::npos && std::string(text).starts_with("nodes")));
}

TEST_CASE("a tuner's regions end between its figures, and one node is in none") {
  const NetPart& p5 = *machineFor("machine p5.48xlarge").net;
  const auto isTree = [&](int nodes, double bytes) {
    const Region* region = regionOf(p5, nodes, bytes);
    return region != nullptr && region->way == Way::Tree;
  };
  CHECK(regionOf(p5, 1, 8) == nullptr);
  CHECK(isTree(2, 31457280));
  CHECK_FALSE(isTree(2, 31457281));
  CHECK(isTree(3, 31457281));
  CHECK_FALSE(isTree(3, 37748736));
  CHECK(isTree(1024, 402653184));
  CHECK_FALSE(isTree(1024, 402653185));
}

TEST_CASE("one thread that launches many kernels holds up small calls and not large ones") {
  const Machine machine = machineFor("machine hgx-h100");
  const auto us = [&](double bytes, int gpus) {
    return predictionOf(machine, Collective::AllReduce, bytes, {.gpusPerProcess = gpus}).us();
  };
  CHECK(us(8, 8) == Approx(8 * kernelLaunchUs()));
  CHECK(us(8, 8) > us(8, 1));
  CHECK(us(1 << 30, 8) == us(1 << 30, 1));
}

TEST_CASE("a call alone takes its launch more, however large it is") {
  const Machine machine = machineFor("machine hgx-h100");
  for (const double bytes : {8.0, 1073741824.0}) {
    const Prediction row = predictionOf(machine, Collective::AllReduce, bytes);
    const Prediction alone = predictionOf(machine, Collective::AllReduce, bytes, {.alone = true});
    CHECK(alone.us() == Approx(row.us() + Fitted{}.aloneUs));
    CHECK(alone.best().way == row.best().way);
  }
}

TEST_CASE("a switch between nodes that reduces is used where it is there") {
  const Machine machine = machineFor("nodes 8; machine hgx-h100");
  const double bytes = 8589934592.0;
  const Prediction without = predictionOf(machine, Collective::AllReduce, bytes);
  const Prediction with = predictionOf(machine, Collective::AllReduce, bytes, {.sharp = true});
  CHECK(without.best().way != Way::NvlsSharp);
  CHECK(with.us() <= without.us());
}

TEST_CASE("what NCCL's model has no answer for it says") {
  const auto machineError = [](const char* text) {
    return machineOf(sim::test::networkOf(sim::test::clusterOf(text))).status().message();
  };
  CHECK_THAT(machineError("machine mi300x"), Catch::Contains("RCCL"));
  CHECK_THAT(machineError("machine package:2"), Catch::Contains("no GPUs"));
  CHECK_THAT(machineError("machine gpu:1"), Catch::Contains("single rank"));
  CHECK_THAT(machineError("machine hgx-h100; ranks-per-node 16"), Catch::Contains("16 ranks on the 8 GPUs"));
  CHECK_THAT(machineError("nodes 4; machine hgx-h100; fabric torus dims:2x2 gbps:50"), Catch::Contains("torus"));
  const Machine machine = machineFor("machine hgx-h100");
  const auto error = [&](Collective collective, const Settings& settings) {
    return predict(machine, collective, 1 << 20, settings).status().message();
  };
  CHECK_THAT(error(Collective::Gather, {}), Catch::Contains("gather is not modelled"));
  CHECK_THAT(error(Collective::AllReduce, {.release = 217}), Catch::Contains("2.18 to 2.30"));
  CHECK_THAT(error(Collective::AllReduce, {.gpusPerProcess = 9}), Catch::Contains("1 to the 8 GPUs"));
  CHECK_THAT(error(Collective::Broadcast, {.ways = "tree"}), Catch::Contains("no algorithm is left"));
}

TEST_CASE("rings with flags take what the simulator of schedules says of the same hops and rate") {
  for (const int gpus : {2, 4, 8}) {
    for (const double bytes : {1024.0, 65536.0, 4194304.0}) {
      CAPTURE(gpus, bytes);
      const std::string text = cat("machine gpu:", gpus, " sm:90 nvlink:18x20.6");
      const Machine machine = machineFor(text);
      const Prediction p = predictionOf(machine, Collective::AllReduce, bytes, {.ways = "ring", .protocols = "LL"});
      const WayTime& time = p.best().time;
      const double gbps = bytes * 2 * (gpus - 1) / gpus / time.dataUs / 1e3;
      const sim::Network network = sim::test::networkOf(sim::test::clusterOf(
          cat(text, "; near ll latency:", hopUs(Way::Ring, Protocol::LL, Hop::NvLink), " gbps:", gbps, "; launch ",
              baseUs(Way::Ring, Protocol::LL), "; reduce 1000000; slice 1G")));
      const sim::Task task = sim::test::taskOf(Collective::AllReduce, "ring", static_cast<size_t>(bytes));
      CHECK(time.us() == Approx(sim::test::usOf(network, task, {.channels = 1})).epsilon(0.02));
    }
  }
}
