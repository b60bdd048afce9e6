// Tutti's CUDA executors on a described machine: the messages are those that the planner has figures of.
#include <catch2/catch.hpp>

#include "src/cost/device_costs.hpp"
#include "tests/unit/sim/support.hpp"
#include "tools/cluster/executors.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

Network networkBy(Executor executor, const std::string& text) {
  Cluster cluster = clusterOf(text);
  const Status status = useExecutor(executor, &cluster);
  CAPTURE(text, status.message());
  REQUIRE(status.ok());
  return networkOf(cluster);
}

double usBy(Executor executor, const std::string& text, const char* algorithm, size_t bytes) {
  const Network network = networkBy(executor, text);
  Task task = taskOf(Collective::AllReduce, algorithm, bytes);
  task.options.sliceBytes = network.cluster().sliceBytes;
  return usOf(network, task, {.asMachine = true});
}

DeviceCosts costsOf(DeviceExecutor way, int gpus, double gbps) {
  DeviceLinks links{.portGBps = gbps, .nvlink = true};
  for (int gpu = 0; gpu < gpus; ++gpu) links.deviceOf.push_back(gpu);
  return deviceCosts(way, {.computeCapability = 90}, links);
}

}  // namespace

TEST_CASE("a ring takes the planner's messages: packets up to 4 KiB, slots beyond, and what the host enqueues") {
  for (const int gpus : {2, 3, 8}) {
    const std::string machine = cat("machine sm:90 nvlink:18x20.6 nvswitch:4 gpu:", gpus);
    const DeviceCosts blocks = costsOf(DeviceExecutor::Blocks, gpus, 18 * 20.6);
    const DeviceCosts streams = costsOf(DeviceExecutor::Streams, gpus, 18 * 20.6);
    const double hops = 2.0 * (gpus - 1);
    for (const size_t part : {size_t{8}, kMostPacketBytes, kMostPacketBytes + 1}) {
      CAPTURE(gpus, part);
      const size_t bytes = part * static_cast<size_t>(gpus);
      const bool packet = part <= kMostPacketBytes;
      const DeviceMessage& message = packet ? blocks.packet.far : blocks.message.far;
      // Each hop copies in and out, and the first half of them combines; a packet is half flag.
      const double copyUs = static_cast<double>(part) / (blocks.blockGBps * 1e3) * (packet ? 2 : 1);
      const double wireUs = static_cast<double>(part) / (18 * 20.6 * 1e3) * (packet ? 2 : 1);
      const double reduceUs = static_cast<double>(part) / (4 * blocks.blockGBps * 1e3);
      const double us = blocks.callUs + hops * (message.us() + 2 * copyUs + wireUs) + (gpus - 1) * reduceUs;
      const Network resident = networkBy(Executor::Resident, machine);
      CHECK(usOf(resident, taskOf(Collective::AllReduce, "ring", bytes)) == Approx(us).epsilon(0.03));
      const double streamed = usBy(Executor::Stream, machine, "ring", bytes);
      CHECK(streamed >= streams.callUs + hops * streams.message.far.us());
      CHECK(streamed == Approx(streams.callUs + hops * streams.message.far.us()).epsilon(0.02));
    }
  }
}

TEST_CASE("one message is as the planner's figure of it") {
  const std::string machine = "machine sm:90 nvlink:18x20.6 nvswitch:4 gpu:2";
  for (const Executor executor : {Executor::Resident, Executor::Stream}) {
    const bool blocks = executor == Executor::Resident;
    const DeviceCosts costs = costsOf(blocks ? DeviceExecutor::Blocks : DeviceExecutor::Streams, 2, 18 * 20.6);
    for (const size_t bytes : {8, 4096, 5000, 65536}) {
      CAPTURE(blocks, bytes);
      Task task = taskOf(Collective::Broadcast, "binomial", bytes);
      const double us = usOf(networkBy(executor, machine), task);
      // The simulator has both ends copy the bytes; deviceMessageUs() counts them once.
      CHECK(us >= 0.99 * deviceMessageUs(costs, false, bytes, 1 << 20));
      const double copyUs = double(bytes) / (blocks ? costs.blockGBps * 1e3 : 1e6);
      CHECK(us <= 1.01 * deviceMessageUs(costs, false, bytes, 1 << 20) + 4 * copyUs);
    }
  }
}

TEST_CASE("channels of blocks are as many as make packets of a chunk, and streams have one") {
  const Network resident = networkBy(Executor::Resident, "machine hgx-h100");
  const Network stream = networkBy(Executor::Stream, "machine hgx-h100");
  const auto channelsOf = [](const Network& network, size_t bytes) {
    const auto outcome =
        simulate(network, taskOf(Collective::AllReduce, "recursivedoubling", bytes), {.asMachine = true});
    REQUIRE(outcome.ok());
    return outcome->channels;
  };
  CHECK(channelsOf(resident, 4096) == 1);
  CHECK(channelsOf(resident, 16384) == 4);
  CHECK(channelsOf(resident, 16385) == 5);
  for (const size_t bytes : {size_t{8}, size_t{16} << 10, size_t{1} << 26}) CHECK(channelsOf(stream, bytes) == 1);
}

TEST_CASE("between nodes a thread of the host stands at either end") {
  const std::string text = "nodes 4; machine gpu:1 sm:90 nic:1x48";
  const DeviceCosts proxy = costsOf(DeviceExecutor::Proxy, 1, 48);
  const double hop = proxy.message.far.us();
  CHECK(usBy(Executor::Auto, text, "ring", 64) >= proxy.callUs + 6 * hop);
  CHECK(usBy(Executor::Auto, text, "ring", 64) <= proxy.callUs + 6 * (hop + 5));
  CHECK(executorOf(Executor::Auto, clusterOf(text)) == Executor::Proxy);
  CHECK(executorOf(Executor::Auto, clusterOf("machine hgx-h100")) == Executor::Stream);
}

TEST_CASE("what a description names itself stays, and executors that are not for it are refused") {
  Cluster cluster = clusterOf("machine hgx-h100; near mine latency:7; launch 1; reduce 5; copy 6; slice 3K");
  REQUIRE(useExecutor(Executor::Resident, &cluster).ok());
  CHECK(cluster.near.size() == 1);
  CHECK(cluster.near[0].name == "mine");
  CHECK((cluster.launchUs == 1 && cluster.reduceGBps == 5 && cluster.copyGBps == 6 && cluster.sliceBytes == 3072));
  const auto error = [](Executor executor, const char* text) {
    Cluster c = clusterOf(text);
    return useExecutor(executor, &c).message();
  };
  CHECK_THAT(error(Executor::Resident, "nodes 2; machine hgx-h100"), Catch::Contains("between nodes there is proxy"));
  CHECK_THAT(error(Executor::Stream, "nodes 2; machine hgx-h100"), Catch::Contains("between nodes there is proxy"));
  CHECK_THAT(error(Executor::Proxy, "machine hgx-h100"), Catch::Contains("resident and stream"));
  CHECK_THAT(error(Executor::Auto, "machine package:2"), Catch::Contains("no GPUs"));
  CHECK_THAT(error(Executor::Auto, "machine mi300x"), Catch::Contains("CUDA"));
  for (const Executor executor : {Executor::Auto, Executor::Resident, Executor::Stream, Executor::Proxy}) {
    const auto parsed = parseExecutor(executorName(executor));
    REQUIRE(parsed.ok());
    CHECK(*parsed == executor);
  }
  CHECK_FALSE(parseExecutor("blocks").ok());
}
