// What a description leaves out follows from its machine.
#include <catch2/catch.hpp>

#include "src/topology/named_machines.hpp"
#include "tests/unit/sim/support.hpp"
#include "tools/cluster/machine_defaults.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

double busOf(const std::string& text, const char* algorithm, size_t bytes) {
  const Network network = networkOf(clusterOf(text));
  Task task{.algorithm = findAlgorithm(Collective::AllReduce, algorithm), .bytes = bytes};
  task.options.sliceBytes = network.cluster().sliceBytes;
  return busGBps(Collective::AllReduce, double(bytes), network.cluster().nRanks(),
                 usOf(network, task, {.asMachine = true}));
}

}  // namespace

TEST_CASE("a machine alone reaches the plateau of its links") {
  struct Row {
    const char* machine;
    double gbps;  // out of a GPU
    const char* algorithm = "ring";
  };
  const auto row = GENERATE(values<Row>({{"machine gpu:8 nvlink:18x50", 900},
                                         {"machine hgx-h100", 18 * 20.6},
                                         {"machine hgx-b200", 18 * 40.1},
                                         {"machine dgx-a100", 12 * 20},
                                         {"machine mi300x", 7 * 48, "twoshot"},
                                         {"machine gpu:4 nvlink:4x10 sm:80", 40}}));
  CAPTURE(row.machine);
  const double bus = busOf(row.machine, row.algorithm, size_t{8} << 30);
  CHECK(bus >= 0.95 * row.gbps);
  CHECK(bus <= row.gbps);
}

TEST_CASE("small calls gain nothing by channels of a machine") {
  const Network network = networkOf(clusterOf("machine hgx-h100"));
  for (const size_t bytes : {size_t{0}, size_t{1} << 10, size_t{64} << 10}) {
    Task task{.algorithm = findAlgorithm(Collective::AllReduce, "ring"), .bytes = bytes};
    const auto outcome = simulate(network, task, {.asMachine = true});
    REQUIRE(outcome.ok());
    CHECK(outcome->channels == 1);
    CHECK(outcome->us == usOf(network, task));
  }
}

TEST_CASE("what is given goes before what the machine asks for") {
  const char* const machine = "machine gpu:8 nvlink:18x50";
  const Network given = networkOf(clusterOf(cat(machine, "; slice 1M; reduce 123")));
  CHECK(given.cluster().reduceGBps == 123);
  Task task{.algorithm = findAlgorithm(Collective::AllReduce, "ring"), .bytes = size_t{8} << 30};
  task.options.sliceBytes = given.cluster().sliceBytes;
  const auto outcome = simulate(given, task, {.asMachine = true});
  REQUIRE(outcome.ok());
  // Chunks of a GiB on each of so many channels, in slices of 1 MiB.
  CHECK(outcome->loops == 1024 / outcome->channels + (1024 % outcome->channels > 0 ? 1 : 0));
  const auto one = simulate(given, task, {.channels = 1, .asMachine = true});
  REQUIRE(one.ok());
  CHECK(one->channels == 1);
  CHECK(one->us == usOf(given, task, {.channels = 1}));
}

TEST_CASE("faster links and slower blocks ask for more channels, slower memory combines less") {
  const auto of = [](const char* text) { return defaultsOf(clusterOf(cat("machine ", text)).machine); };
  CHECK(of("gpu:8 nvlink:18x50").channels > of("gpu:8 nvlink:18x20.6").channels);
  CHECK(of("gpu:8 nvlink:18x20.6 sm:80").channels > of("gpu:8 nvlink:18x20.6 sm:90").channels);
  CHECK(of("gpu:8 nvlink:18x20.6 sm:80").reduceGBps < of("gpu:8 nvlink:18x20.6 sm:90").reduceGBps);
  CHECK(of("gpu:8").channels >= 1);
  CHECK(of("package:2 core:4") == MachineDefaults{});
}

TEST_CASE("every named machine can be simulated by its name alone") {
  for (const topology::NamedMachine& machine : topology::namedMachines()) {
    CAPTURE(machine.name);
    const auto cluster = loadCluster(std::string(machine.name));
    REQUIRE(cluster.status().message() == "");
    const Network network = networkOf(*cluster);
    CHECK(usOf(network, taskOf(Collective::AllReduce, "ring", 1 << 20)) > 0);
    const Network two = networkOf(clusterOf(cat("nodes 2; machine ", machine.name)));
    CHECK(usOf(two, taskOf(Collective::AllReduce, "ring", 1 << 16)) > 0);
  }
  CHECK_THAT(loadCluster("hgx-h99").status().message(), Catch::Contains("nor a machine by name: dgx-2, "));
}
