// What ranks on CUDA devices get, and why.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "src/schedule/passes.hpp"
#include "src/sim/memory.hpp"
#include "tests/unit/plan/device_jobs.hpp"
#include "transport/ncclnet/entry.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

std::vector<Collective> allCollectives() {
  std::vector<Collective> all;
  for (int i = 0; i < kNumCollectives; ++i) all.push_back(static_cast<Collective>(i));
  return all;
}

/// Bytes that an algorithm's plan for blocks of one device reads and writes.
double deviceTraffic(const Algorithm& a, Shape shape) {
  std::vector<Schedule> all;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) all.push_back(fuseForDirect(a.build(shape)));
  shape.rank = 0;
  const double chunk = sim::chunkBytesOf(all[0], shape.bytes);
  const auto roles = sim::rolesOf(markDirect(all), shape, {.asTheyAre = true, .sliceBytes = 0});
  REQUIRE(roles.status().message() == "");
  return sim::trafficOf(*roles, std::vector<int>(static_cast<size_t>(shape.nRanks)), chunk);
}

const Algorithm& algorithmOf(Collective collective, const char* name) {
  const Algorithm* found = findAlgorithm(collective, name);
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("traffic is what theory says") {
  const Shape shape{.collective = Collective::AllReduce, .nRanks = 4, .bytes = 64 * kMi};
  const double vector = 64.0 * kMi;
  // Two shots: each rank reads a shard of all and writes it, and copies the others' shards.
  CHECK(deviceTraffic(algorithmOf(Collective::AllReduce, "twoshot"), shape) == Approx((3 * 4 - 1) * vector));
  CHECK(deviceTraffic(algorithmOf(Collective::AllReduce, "ring"), shape) == Approx(3 * 5 * vector));
  const Shape gather{.collective = Collective::AllGather, .nRanks = 4, .bytes = 16 * kMi};
  CHECK(deviceTraffic(algorithmOf(Collective::AllGather, "direct"), gather) == Approx(2 * 4 * vector));
}

TEST_CASE("ranks on devices get what a person would choose") {
  struct Row {
    Collective collective;
    const char* algorithms[4];  // of each of kSizes; any of these: their costs are equal, or nearly
  };
  struct Table {
    DeviceExecutor way;
    std::vector<DeviceLinks> jobs;
    std::vector<Row> rows;
  };
  const char* kAny = "";
  const std::vector<Table> tables = {
      // Blocks of one device: few steps while it is a matter of latency, the fewest bytes read and written then.
      {DeviceExecutor::Blocks,
       {sharing(2), sharing(3), sharing(4), sharing(8), sharing(16)},
       {{Collective::AllReduce,
         {"recursivedoubling oneshot", "recursivedoubling oneshot", "recursivedoubling oneshot twoshot",
          "twoshot ring"}},
        {Collective::AllGather, {"direct ring", "direct ring", "direct ring", "direct ring"}},
        {Collective::ReduceScatter, {"direct ring", "direct ring", "direct ring", "direct ring"}},
        {Collective::AllToAll, {kAny, kAny, kAny, "direct pairwise bruck8"}},
        {Collective::Broadcast,
         {"direct binomial", "direct binomial", "direct binomial", "direct binomial scatterallgather circulant"}},
        {Collective::Reduce,
         {"direct binomial", "direct binomial", "direct binomial circulant reducescattergather",
          "direct binomial circulant"}},
        {Collective::Gather, {"direct", "direct", "direct", "direct"}},
        {Collective::Scatter, {"direct", "direct", "direct", "direct"}},
        {Collective::Barrier, {"direct dissemination", "direct dissemination", kAny, kAny}}}},
      // Over NVLink: all others at once, as far as the ports go; broadcasts in a row of slices.
      {DeviceExecutor::Blocks,
       {gpusOf(kNvswitch, 8), gpusOf(kNvswitch, 2), gpusOf(kPcie, 2)},
       {{Collective::AllReduce,
         {"recursivedoubling oneshot", "recursivedoubling oneshot", "twoshot recursivedoubling",
          "twoshot ring halvingdoubling tree"}},
        {Collective::AllGather, {"direct ring", "direct ring", "direct ring", "direct ring"}},
        {Collective::ReduceScatter, {"direct ring", "direct ring", "direct ring", "direct ring"}},
        {Collective::AllToAll, {kAny, kAny, kAny, "direct pairwise bruck8"}},
        {Collective::Broadcast,
         {"direct binomial", "direct binomial scatterallgather", kAny, "chain circulant binomial"}},
        {Collective::Reduce, {"direct binomial", "direct binomial scatterallgather", kAny, "chain circulant binomial"}},
        {Collective::Gather, {"direct", "direct", "direct", "direct"}},
        {Collective::Scatter, {"direct", "direct", "direct", "direct"}}}},
      // By streams a message costs microseconds of work at both ends: as few as there can be.
      {DeviceExecutor::Streams,
       {sharing(2), sharing(4), sharing(8), sharing(16), gpusOf(kNvswitch, 8), gpusOf(kPcie, 2)},
       {{Collective::AllReduce,
         {"recursivedoubling", "recursivedoubling", "recursivedoubling", "ring twoshot tree halvingdoubling"}},
        {Collective::AllGather,
         {"recursivedoubling ring", "recursivedoubling ring", "recursivedoubling ring direct", "ring direct"}},
        {Collective::ReduceScatter,
         {"recursivehalving ring", "recursivehalving ring", "recursivehalving ring direct", "ring direct"}},
        {Collective::AllToAll, {kAny, kAny, kAny, "direct pairwise"}},
        {Collective::Broadcast, {"binomial", "binomial", "binomial chain scatterallgather", kAny}},
        {Collective::Reduce, {"binomial direct", "binomial direct", "binomial direct chain", kAny}},
        {Collective::Gather, {"binomial direct", "binomial direct", "binomial direct", "direct"}},
        {Collective::Scatter, {"binomial direct", "binomial direct", "binomial direct", "direct"}},
        {Collective::Barrier, {"dissemination", "dissemination", kAny, kAny}}}},
  };
  for (const Table& table : tables) {
    for (const DeviceLinks& links : table.jobs) {
      DeviceJob job(table.way, links);
      for (const Row& row : table.rows) {
        for (size_t i = 0; i < std::size(kSizes); ++i) {
          if (row.algorithms[i] == kAny) continue;
          const Choice choice = job.choose(row.collective, kSizes[i]);
          const PlanRequest asked = job.request(row.collective, kSizes[i]);
          INFO(explain(asked, choice));
          const auto right = split(row.algorithms[i], ' ');
          CHECK(std::find(right.begin(), right.end(), choice.name()) != right.end());
        }
      }
    }
  }
}

TEST_CASE("large calls move few bytes") {
  // One device: beside what its memory carries, what one rank's blocks do counts, so a Reduce is rather spread.
  for (const int n : {2, 3, 4, 8}) {
    DeviceJob job(DeviceExecutor::Blocks, sharing(n));
    for (const Collective collective : allCollectives()) {
      if (collective == Collective::Barrier) continue;
      const PlanRequest asked = job.request(collective, 64 * kMi);
      double least = HUGE_VAL;
      for (const Algorithm* a : algorithms()) {
        if (a->collective == collective && a->supports(asked.shape) && a->chooseParts == nullptr)
          least = std::min(least, deviceTraffic(*a, asked.shape));
      }
      const Choice choice = job.choose(collective, 64 * kMi);
      CAPTURE(n, collectiveKey(collective), choice.name());
      const double most = collective == Collective::Reduce ? 2 : 1.5;
      CHECK(deviceTraffic(*choice.algorithm, asked.shape) <= most * least);
    }
  }
  // Several: what the busiest port carries.
  for (const DeviceLinks& links : {gpusOf(kNvswitch, 8), gpusOf(kPcie, 2)}) {
    for (const DeviceExecutor way : {DeviceExecutor::Blocks, DeviceExecutor::Streams}) {
      DeviceJob job(way, links);
      for (const Collective collective : allCollectives()) {
        if (collective == Collective::Barrier) continue;
        const Choice choice = job.choose(collective, 256 * kMi);
        double least = HUGE_VAL, chosen = 0;
        for (const Candidate& row : choice.table) {
          if (!row.excluded.empty()) continue;
          least = std::min(least, row.wireUs);
          if (row.algorithm == choice.algorithm && row.joined == choice.joined) chosen = row.wireUs;
        }
        CAPTURE(collectiveKey(collective), choice.name());
        CHECK(chosen > 0);
        CHECK(chosen <= 1.5 * least);
      }
    }
  }
}

TEST_CASE("expected times are of the order of published ones") {
  struct Row {
    size_t bytes;
    double fastestUs, slowestUs;
  };
  // AllReduce on 8 H100 or H200 with NVSwitch.  Short calls: MSCCL++ (pull request 647) and NCCL 2.18 on Azure's ND
  // H100 v5.  Large ones: NCCL 2.27 at its bus bandwidth for that size, and without its multicast at 367 GB/s at most.
  const Row rows[] = {{kKi, 4.65, 15}, {kMi, 10.3, 46}, {64 * kMi, 339, 500}, {256 * kMi, 1078, 1600}};
  DeviceJob job(DeviceExecutor::Blocks, gpusOf(kNvswitch, 8));
  for (const Row& row : rows) {
    const double us = job.choose(Collective::AllReduce, row.bytes).costUs;
    CAPTURE(row.bytes);
    CHECK(us > row.fastestUs);
    CHECK(us < row.slowestUs);
  }
}

TEST_CASE("short calls by streams take few operations of a rank") {
  for (const int n : {2, 3, 4, 8, 16}) {
    DeviceJob job(DeviceExecutor::Streams, sharing(n));
    for (const Collective collective : allCollectives()) {
      const Choice choice = job.choose(collective, 8);
      double least = HUGE_VAL, chosen = 0;
      for (const Candidate& row : choice.table) {
        if (!row.excluded.empty()) continue;
        least = std::min(least, row.workUs);
        if (row.algorithm == choice.algorithm && row.joined == choice.joined) chosen = row.workUs;
      }
      CAPTURE(n, collectiveKey(collective), choice.name());
      // A chain has fewer for the busiest rank than a tree, and all of them one after the other.
      const bool tree = collective == Collective::Broadcast || collective == Collective::Reduce;
      CHECK(chosen <= (tree ? 0.5 * std::ceil(std::log2(n)) + 0.5 : 1.1) * least);
    }
  }
}

TEST_CASE("tables name the devices, and no cores") {
  DeviceJob blocks(DeviceExecutor::Blocks, sharing(4));
  const std::string one =
      explain(blocks.request(Collective::AllReduce, kMi), blocks.choose(Collective::AllReduce, kMi));
  CAPTURE(one);
  CHECK(says(one, "cuda-blocks, 4 ranks on one device"));
  CHECK(says(one, "ranks of one device read each other's buffers"));
  CHECK(says(one, "busy device"));
  CHECK_FALSE(says(one, "core"));
  CHECK_FALSE(says(one, "shm"));
  DeviceJob streams(DeviceExecutor::Streams, gpusOf(kNvswitch, 8));
  const std::string eight =
      explain(streams.request(Collective::AllReduce, kMi), streams.choose(Collective::AllReduce, kMi));
  CAPTURE(eight);
  CHECK(says(eight, "cuda-streams, 8 devices joined by NVLink of 371 GB/s"));
  CHECK(says(eight, "cuda-streams lends registered memory"));
}

TEST_CASE("a proxy adds to the host's links, whose cores still count") {
  const Calibration c = defaultCalibration({"test cpu", 8, "test"}, linkKinds());
  const DeviceCosts proxy = deviceCosts(DeviceExecutor::Proxy, {90, 4800}, {});
  PlanRequest host;
  host.shape = {.collective = Collective::AllReduce, .nRanks = 8, .bytes = kMi};
  host.links.intra = kShmProcesses;
  host.links.ranksPerCore = 4;
  PlanRequest staged = host;
  staged.device = &proxy;
  staged.directPossible = true;
  const Result<Choice> without = plan(host, c), with = plan(staged, c);
  REQUIRE(with.status().message() == "");
  CHECK(with->protocol != Protocol::Direct);
  CHECK(with->costUs > without->costUs + proxy.callUs + proxy.message.near.us());
  const std::string text = explain(staged, *with);
  CAPTURE(text);
  CHECK(says(text, "cuda-proxy over shm-processes, 4 ranks per core"));
  staged.shape.bytes = 8;
  host.shape.bytes = 8;
  CHECK(costModel(staged, c, Protocol::Slots).link.latencyUs >
        costModel(host, c, Protocol::Slots).link.latencyUs + proxy.message.near.us() - 1e-9);
}

TEST_CASE("where devices of a host reach each other only messages between hosts pass through pinned memory") {
  const Calibration c = defaultCalibration({"test cpu", 8, "test"}, linkKinds());
  const std::vector<int> hostOf = {0, 0, 0, 0, 1, 1, 1, 1};
  const MachineLevels levels = {{"host", hostOf, kShmProcesses, 0}, {"all", std::vector<int>(8), kTcpRemote, 0}};
  DeviceCosts costs = deviceCosts(DeviceExecutor::Proxy, {90, 4800}, {});
  PlanRequest r;
  r.shape = {.collective = Collective::AllReduce, .nRanks = 8};
  r.shape.nodeOf = hostOf;
  r.links.intra = kShmProcesses;
  r.links.inter = kTcpRemote;
  r.levels = &levels;
  r.device = &costs;
  const auto prices = [&] { return pricesOf(r, c, Protocol::Slots, {}); };
  const sim::Prices staged = prices();
  costs.insideHost = std::make_shared<DeviceCosts>(deviceCosts(DeviceExecutor::Streams, {90, 4800}, sharing(4)));
  const sim::Prices mixed = prices();
  CHECK(mixed.copied[0].sendUsPerByte == Approx(2 / (costs.memoryGBps * 1e3)));
  CHECK(mixed.copied[0].sendUs == Approx(costs.insideHost->message.near.sendUs));
  CHECK(staged.copied[0].sendUsPerByte > 10 * mixed.copied[0].sendUsPerByte);
  CHECK(mixed.copied[1].sendUsPerByte == staged.copied[1].sendUsPerByte);
  for (const size_t bytes : {size_t{8}, kMi, 64 * kMi}) {
    r.shape.bytes = bytes;
    const auto us = [&] { return plan(r, c)->costUs; };
    const double withDevices = us();
    const auto inside = std::exchange(costs.insideHost, nullptr);
    CHECK(withDevices < us());
    costs.insideHost = inside;
  }
  CHECK(says(explain(r, *plan(r, c)), "cuda-proxy, inside hosts cuda-streams, 4 ranks on one device over"));
}

TEST_CASE("where adapters have memory of all devices messages between hosts are copied on devices alone") {
  const Calibration c = defaultCalibration({"test cpu", 8, "test"}, linkKinds());
  const std::vector<int> hostOf = {0, 0, 1, 1};
  const MachineLevels levels = {{"host", hostOf, kShmProcesses, 0}, {"all", std::vector<int>(4), kNcclnetRemote, 0}};
  DeviceCosts costs = deviceCosts(DeviceExecutor::Proxy, {90, 4800}, {});
  PlanRequest r;
  r.shape = {.collective = Collective::AllReduce, .nRanks = 4, .bytes = 64 * kMi};
  r.shape.nodeOf = hostOf;
  r.links.intra = kShmProcesses;
  r.links.inter = kNcclnetRemote;
  r.levels = &levels;
  r.device = &costs;
  const sim::Prices pinned = pricesOf(r, c, Protocol::Slots, {});
  const CostModel modelPinned = costModel(r, c, Protocol::Slots);
  const double pinnedUs = plan(r, c)->costUs;
  costs.byAdapters = true;
  const sim::Prices straight = pricesOf(r, c, Protocol::Slots, {});
  const CostModel model = costModel(r, c, Protocol::Slots);
  CHECK(straight.copied[1].sendUsPerByte == Approx(2 / (costs.memoryGBps * 1e3)));
  CHECK(straight.copied[1].sendUs == pinned.copied[1].sendUs);
  CHECK(straight.copied[0].sendUsPerByte == pinned.copied[0].sendUsPerByte);  // inside a host nothing changes
  CHECK(model.inter.bandwidthGBps > modelPinned.inter.bandwidthGBps);
  CHECK(model.intra.bandwidthGBps == modelPinned.intra.bandwidthGBps);
  CHECK(plan(r, c)->costUs < pinnedUs);
}

TEST_CASE("protocols that cannot be had on devices are refused by name") {
  DeviceJob apart(DeviceExecutor::Blocks, gpusOf(kNvswitch, 8));
  PlanRequest r = apart.request(Collective::AllReduce, kMi);
  const auto refusal = [&](Protocol protocol) {
    r.overrides.protocol = protocol;
    r.overrides.strict = true;
    return plan(r, defaultCalibration({"test cpu", 8, "test"}, linkKinds())).status().message();
  };
  CHECK(says(refusal(Protocol::Direct), "not every rank's buffers can be read by its peers; these would: slots."));
  CHECK(says(refusal(Protocol::Inline), "packets take up to 4096 bytes; these would: slots."));
  CHECK(refusal(Protocol::Slots).empty());
  DeviceJob shared(DeviceExecutor::Blocks, sharing(4));
  r = shared.request(Collective::AllReduce, kMi);
  CHECK(refusal(Protocol::Direct).empty());
  CHECK(refusal(Protocol::Slots).empty());
  CHECK(says(refusal(Protocol::Inline), "; these would: slots, direct."));
  DeviceJob streams(DeviceExecutor::Streams, sharing(4));
  r = streams.request(Collective::AllReduce, 8);
  CHECK(says(refusal(Protocol::Inline), "cuda-streams knows no shorter messages; these would: slots."));
  // Without TUTTI_ALGO_STRICT it is as if nobody had asked.
  for (DeviceJob* job : {&apart, &shared, &streams}) {
    PlanRequest free = job->request(Collective::AllReduce, kMi);
    const Choice own = *plan(free, defaultCalibration({"test cpu", 8, "test"}, linkKinds()));
    free.overrides.protocol = Protocol::Inline;
    const Choice choice = *plan(free, defaultCalibration({"test cpu", 8, "test"}, linkKinds()));
    CHECK(choice.unmet.size() == 1);
    CHECK(choice.name() == own.name());
    CHECK(choice.protocol == own.protocol);
    CHECK(choice.costUs == own.costUs);
  }
}

TEST_CASE("communicators on other ways or devices do not share estimates") {
  DeviceJob blocks(DeviceExecutor::Blocks, sharing(4)), streams(DeviceExecutor::Streams, sharing(4));
  DeviceJob slower(DeviceExecutor::Blocks, sharing(4), {80, 1500});
  const Calibration c = defaultCalibration({"test cpu", 8, "test"}, linkKinds());
  const auto estimates = [&](const DeviceJob& job) {
    return sharedEstimates(job.request(Collective::AllReduce, 8), c);
  };
  const auto one = estimates(blocks), other = estimates(streams), third = estimates(slower), again = estimates(blocks);
  CHECK(one == again);
  CHECK(one != other);
  CHECK(one != third);
}

TEST_CASE("many ranks on several devices have plans") {
  DeviceLinks links = gpusOf(kNvswitch, 8);
  links.deviceOf.clear();
  for (int rank = 0; rank < 32; ++rank) links.deviceOf.push_back(rank / 4);
  for (const DeviceExecutor way : {DeviceExecutor::Blocks, DeviceExecutor::Streams}) {
    DeviceJob job(way, links);
    REQUIRE(job.levels.size() == 2);
    for (const Collective collective : allCollectives()) {
      for (const size_t bytes : {size_t{8}, 16 * kMi}) {
        const Choice choice = job.choose(collective, bytes);
        CAPTURE(collectiveKey(collective), bytes, choice.name());
        CHECK(std::isfinite(choice.costUs));
        CHECK(choice.costUs > job.costs.callUs);
      }
    }
  }
}
