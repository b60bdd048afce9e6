// What the simulator must say where costs have closed forms.  p ranks on one switch, n bytes, alpha microseconds a
// message, beta microseconds a byte and port, gamma microseconds a byte combined.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/sim/support.hpp"

using namespace tutti;
using namespace tutti::sim;
using namespace tutti::sim::test;

namespace {

constexpr double kAlpha = 3, kGBps = 50, kReduceGBps = 200;
constexpr double kBeta = 1 / (kGBps * 1e3), kGamma = 1 / (kReduceGBps * 1e3);

int ceilLog(double p) { return static_cast<int>(std::ceil(std::log2(p) - 1e-9)); }
bool isPower(int p) { return (p & (p - 1)) == 0; }

double simulated(Collective collective, const std::string& algorithm, int p, size_t bytes) {
  const Network network = networkOf(clusterOf(plain(p, kAlpha, kGBps, kReduceGBps)));
  return usOf(network, taskOf(collective, algorithm, bytes), {.detail = Detail::Fewest, .mostLoops = 3});
}

}  // namespace

TEST_CASE("allreduce costs what its formula says") {
  const int p = GENERATE(2, 3, 4, 7, 8, 13, 16, 32);
  const size_t n = GENERATE(size_t{0}, size_t{1000}, size_t{1} << 26);
  CAPTURE(p, n);
  const double moved = double(n) * (p - 1) / p;
  const auto us = [&](const char* algorithm) { return simulated(Collective::AllReduce, algorithm, p, n); };
  CHECK(us("ring") == Approx(2 * (p - 1) * kAlpha + moved * (2 * kBeta + kGamma)));
  CHECK(us("circulant") == Approx(2 * ceilLog(p) * kAlpha + moved * (2 * kBeta + kGamma)));
  // All messages of a step pass the sender's port one after the other; the last is waited for.
  CHECK(us("twoshot") == Approx(2 * kAlpha + moved * (2 * kBeta) + double(n) / p * kGamma).epsilon(0.25));
  CHECK(us("twoshot") >= 2 * kAlpha + moved * 2 * kBeta - 1e-3);
  if (isPower(p)) {
    CHECK(us("halvingdoubling") == Approx(2 * ceilLog(p) * kAlpha + moved * (2 * kBeta + kGamma)));
    CHECK(us("recursivedoubling") == Approx(ceilLog(p) * (kAlpha + double(n) * (kBeta + kGamma))));
  }
}

TEST_CASE("allgather, reduce-scatter and alltoall cost what their formulas say") {
  const int p = GENERATE(2, 3, 5, 8, 16, 27);
  const size_t block = GENERATE(size_t{64}, size_t{1} << 22);
  CAPTURE(p, block);
  const double moved = double(block) * (p - 1);
  const auto gather = [&](const char* algorithm) { return simulated(Collective::AllGather, algorithm, p, block); };
  const auto scatter = [&](const char* algorithm) { return simulated(Collective::ReduceScatter, algorithm, p, block); };
  CHECK(gather("ring") == Approx((p - 1) * kAlpha + moved * kBeta));
  CHECK(gather("circulant") == Approx(ceilLog(p) * kAlpha + moved * kBeta));
  CHECK(gather("bruck") == Approx(ceilLog(p) * kAlpha + moved * kBeta));
  CHECK(gather("direct") == Approx(kAlpha + moved * kBeta));
  CHECK(scatter("ring") == Approx((p - 1) * kAlpha + moved * (kBeta + kGamma)));
  CHECK(scatter("circulant") == Approx(ceilLog(p) * kAlpha + moved * (kBeta + kGamma)));
  CHECK(simulated(Collective::AllToAll, "direct", p, block) ==
        Approx(kAlpha + moved * kBeta).margin(double(block) / 1e6 + 1e-6));
}

TEST_CASE("rooted collectives cost what their formulas say") {
  const int p = GENERATE(2, 3, 8, 16, 31);
  const size_t n = GENERATE(size_t{1000}, size_t{1} << 20);
  CAPTURE(p, n);
  // The binomial root sends the whole vector to one after the other; the last one's subtree is itself.
  const double binomial = simulated(Collective::Broadcast, "binomial", p, n);
  CHECK(binomial >= ceilLog(p) * double(n) * kBeta + kAlpha - 1e-3);
  CHECK(binomial <= ceilLog(p) * (kAlpha + double(n) * kBeta) + 1e-3);
  CHECK(simulated(Collective::Broadcast, "direct", p, n) == Approx((p - 1) * double(n) * kBeta + kAlpha));
  CHECK(simulated(Collective::Gather, "direct", p, n) == Approx((p - 1) * double(n) * kBeta + kAlpha));
  CHECK(simulated(Collective::Barrier, "dissemination", p, 0) == Approx(ceilLog(p) * kAlpha));
}

TEST_CASE("slices turn a chain into a pipeline") {
  const int p = GENERATE(2, 5, 16);
  const Network network = networkOf(clusterOf(plain(p, kAlpha, kGBps)));
  Task task = taskOf(Collective::Broadcast, "chain", size_t{64} << 20);
  task.options.sliceBytes = 1 << 20;
  const double sliceUs = (1 << 20) * kBeta;
  // The algorithm cuts into a few pieces itself; loops over slices must not cost more than the pipeline's fill.
  const double us = usOf(network, task, {.mostLoops = 1000});
  CHECK(us >= 64 * sliceUs);
  CHECK(us <= 64 * sliceUs + p * (sliceUs + kAlpha) + 64);
  CHECK(usOf(network, task) == Approx(us).epsilon(0.01));
}

TEST_CASE("what loops cost follows from the first of them") {
  const char* algorithm = GENERATE("ring", "tree", "circulant", "twoshot", "recursivedoubling");
  const int p = GENERATE(4, 7, 16);
  CAPTURE(algorithm, p);
  const Network network = networkOf(clusterOf(plain(p, kAlpha, kGBps, kReduceGBps)));
  Task task = taskOf(Collective::AllReduce, algorithm, size_t{256} << 20);
  task.options.sliceBytes = 256 << 10;
  CHECK(usOf(network, task) == Approx(usOf(network, task, {.mostLoops = 100000})).epsilon(0.02));
}

TEST_CASE("overheads keep the lane busy, receivers' too, and the launch comes first") {
  const Network network = networkOf(clusterOf(
      "machine gpu:4 nvlink:1x100\nnear p overhead:1 latency:10 receive:2 efficiency:0.5\nlaunch 7\nreduce 1000000"));
  // Three sends of one microsecond each; the last leaves after the third, all travel at once, three receives.
  const Task task = taskOf(Collective::AllReduce, "oneshot", 0);
  CHECK(usOf(network, task) == Approx(7 + 3 * 1 + 10 + 2).margin(4.001));
  CHECK(usOf(network, task) >= 7 + 1 + 10 + 3 * 2);
  // Half of the bandwidth is lost to the protocol.
  const Task large = taskOf(Collective::AllGather, "ring", 50'000'000);
  CHECK(usOf(network, large) == Approx(7 + 3 * (1 + 10 + 2 + 1000)));
}

TEST_CASE("ranks that share a core take turns, with what they do themselves") {
  const auto us = [](int cores) {
    const Network network = networkOf(clusterOf(cat("machine package:1 core:2\nranks-per-node 2\ncores ", cores,
                                                    "\nturn 5\nlaunch 1\n"
                                                    "near p overhead:1 receive:2 copy:1 gbps:1000000\n")));
    return usOf(network, taskOf(Collective::AllGather, "ring", 1000));
  };
  CHECK(us(2) == Approx(1 + (1 + 1) + (2 + 1)).epsilon(1e-3));
  // Rank 0 begins and sends; a turn; rank 1 does, and takes what is there; a turn; rank 0 takes.
  CHECK(us(1) == Approx((1 + 2) + 5 + (1 + 2 + 3) + 5 + 3).epsilon(1e-3));
}

TEST_CASE("going past ranks that wait costs less than a turn where that is said") {
  const auto us = [](const char* pass) {
    const Network network = networkOf(clusterOf(cat("machine package:1 core:2\nranks-per-node 3\ncores 1\nturn 5\n",
                                                    pass, "\nlaunch 1\nnear p overhead:1 receive:2 gbps:1000000\n")));
    return usOf(network, taskOf(Collective::AllGather, "ring", 1000));
  };
  CHECK(us("") == Approx(us("pass 5")));
  const double once = us("pass 5") - us("pass 4");
  CHECK(once > 0.999);
  CHECK(us("pass 5") - us("pass 0") == Approx(5 * once));
}

TEST_CASE("writing to what a rank on another core has read costs the sender more") {
  const auto us = [](int cores, const char* more) {
    const Network network =
        networkOf(clusterOf(cat("machine package:1 core:2\nranks-per-node 2\ncores ", cores,
                                "\nlaunch 1\nnear p overhead:1 receive:2 copy:1 gbps:1000000 ", more)));
    return usOf(network, taskOf(Collective::AllGather, "ring", 1000));
  };
  CHECK(us(2, "across-write:0.5") == Approx(us(2, "") + 2).epsilon(1e-3));
  CHECK(us(2, "across-write:0.5 once:1") == Approx(us(2, "") + 2).epsilon(1e-3));
  CHECK(us(1, "across-write:0.5") == Approx(us(1, "")));
}

TEST_CASE("what a loop touches again is as near as the loop, and the first time as far as the call") {
  const auto us = [](Collective collective, const char* name, const char* slice, const char* memory) {
    const Network network = networkOf(clusterOf(cat("machine package:1 core:4\nranks-per-node 4\ncores 4\nslice ",
                                                    slice, "\n", memory, "\nlaunch 1\nnear p copy:1\n")));
    Task task = taskOf(collective, name, 4 << 20);
    task.options.sliceBytes = network.cluster().sliceBytes;
    return usOf(network, task);
  };
  const char* far = "memory near:1M far:4M copy:0.5 reduce:0.5";
  const auto slower = [&](Collective collective, const char* name, const char* slice) {
    return us(collective, name, slice, far) / us(collective, name, slice, "");
  };
  CHECK(slower(Collective::AllReduce, "ring", "4M") == Approx(2).epsilon(0.01));
  const double looped = slower(Collective::AllReduce, "ring", "16K");
  CHECK(looped > 1.2);
  CHECK(looped < 1.8);
  CHECK(slower(Collective::AllToAll, "direct", "16K") == Approx(2).epsilon(0.01));  // nothing is touched again
}

TEST_CASE("messages of each chunk alone cost their overheads, joined ones do not") {
  const Network network = networkOf(clusterOf("machine gpu:16 nvlink:1x100\nnear p overhead:1 latency:5\nlaunch 0"));
  Task task = taskOf(Collective::AllReduce, "circulant", 0);
  CHECK(usOf(network, task) == Approx(8 * 6));
  task.joined = false;
  CHECK(usOf(network, task) >= 2 * 15 * 1 + 5);
  Task ring = taskOf(Collective::AllReduce, "ring", 1 << 20);
  const double joined = usOf(network, ring);
  ring.joined = false;
  CHECK(usOf(network, ring) == Approx(joined));
}

TEST_CASE("the protocol is the fastest for the message, or the one asked for") {
  const Network network =
      networkOf(clusterOf("machine gpu:2 nvlink:1x100\nlaunch 0\nreduce 1000000\n"
                          "near small latency:1 efficiency:0.1\nnear large latency:9\nnear tiny latency:0 most:8"));
  const auto us = [&](size_t bytes, const char* protocol) {
    return usOf(network, taskOf(Collective::AllGather, "ring", bytes), {.protocol = protocol});
  };
  CHECK(us(8, "") == Approx(8 / 1e5).margin(1e-5));
  CHECK(us(10'000, "") == Approx(1 + 1));
  CHECK(us(10'000, "large") == Approx(9 + 0.1));
  CHECK(us(1'000'000, "") == Approx(9 + 10));
  CHECK(us(1'000'000, "small") == Approx(1 + 100));
}

TEST_CASE("what would take years is an error, not a wrong number") {
  const Network network =
      networkOf(clusterOf("nodes 2\nmachine gpu:2 nvlink:1x100 nic:2x50\nfabric torus dims:2 gbps:0.001\nlaunch 0"));
  const auto outcome = simulate(network, taskOf(Collective::AllReduce, "ring", size_t{1} << 46), {});
  REQUIRE_FALSE(outcome.ok());
  CHECK_THAT(outcome.status().message(), Catch::Contains("days"));
}
