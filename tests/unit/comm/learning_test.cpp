// TUTTI_LEARN: whatever is tried, results are right, and, but for TUTTI_LEARN=2, have the same bits in every call; what
// was found is kept.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "src/comm/handle.hpp"
#include "tests/support/process_ranks.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

// More than the trials of a kind take, whose plans have to cost little beside its calls.
constexpr int kMostCalls = 1'000'000;
constexpr size_t kCount = 1500;

/// Sums of these depend on the order of the operands in most elements.
std::vector<float> inputOf(int rank) {
  std::vector<float> in(kCount);
  for (size_t i = 0; i < kCount; ++i)
    in[i] = std::ldexp(1.0F / static_cast<float>(i % 97 + 3), (rank * 7 + static_cast<int>(i)) % 12);
  return in;
}

Learning* learningOf(const Rank& r) { return r.comm->comm->planner().learning(); }

Call callOf(Collective collective, size_t count, tuttiDataType_t dtype) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.dtype = dtype;
  return call;
}

/// Whether ways have been compared for calls like this one.
bool learned(const Rank& r, const Call& call) {
  Learning::Kind* const kind = learningOf(r)->kindOf(call);
  return kind != nullptr && kind->trials.settled();
}

/// Makes calls, the same number on all ranks, until ways have been compared for all of these, and some more.
std::string untilLearned(const Rank& r, const std::vector<Call>& calls, const std::function<std::string(int)>& make) {
  int more = 0;
  for (int number = 0; more < 20; ++number) {
    if (number == kMostCalls) return "nothing is learned";
    if (std::string wrong = make(number); !wrong.empty()) return wrong + ", call " + std::to_string(number);
    if (std::ranges::all_of(calls, [&](const Call& call) { return learned(r, call); })) ++more;
  }
  return "";
}

/// What differs from the first call's bits, or from the sum.
std::string sumsStay(const Rank& r, bool sameBits) {
  const std::vector<float> in = inputOf(r.rank);
  std::vector<float> first(kCount), out(kCount);
  return untilLearned(r, {callOf(Collective::AllReduce, kCount, tuttiFloat32)}, [&](int call) -> std::string {
    std::ranges::fill(out, -1.0F);
    RANK_TRY(tuttiAllReduce(in.data(), out.data(), kCount, tuttiFloat32, tuttiSum, r.comm, nullptr));
    if (call == 0) first = out;
    if (sameBits && std::memcmp(first.data(), out.data(), kCount * sizeof(float)) != 0) return "other bits";
    for (size_t i = 0; i < kCount; ++i) RANK_CHECK(std::abs(out[i] - first[i]) <= 1e-5F * std::abs(first[i]));
    return "";
  });
}

std::string integersAreExact(const Rank& r) {
  const auto n = static_cast<size_t>(r.nRanks);
  const size_t block = 257;
  std::vector<int32_t> in(block * n), out(block * n);
  const std::vector<Call> kinds = {callOf(Collective::ReduceScatter, block, tuttiInt32),
                                   callOf(Collective::AllToAll, block, tuttiInt32),
                                   callOf(Collective::Barrier, 0, tuttiFloat32)};
  return untilLearned(r, kinds, [&](int call) -> std::string {
    const auto value = [&](int rank, size_t i) { return (rank + 1) * 1000 + call * 7 + static_cast<int32_t>(i); };
    for (size_t i = 0; i < in.size(); ++i) in[i] = value(r.rank, i);
    RANK_TRY(tuttiReduceScatter(in.data(), out.data(), block, tuttiInt32, tuttiSum, r.comm, nullptr));
    for (size_t i = 0; i < block; ++i) {
      int32_t sum = 0;
      for (int from = 0; from < r.nRanks; ++from) sum += value(from, static_cast<size_t>(r.rank) * block + i);
      RANK_CHECK(out[i] == sum);
    }
    RANK_TRY(tuttiAllToAll(in.data(), out.data(), block, tuttiInt32, r.comm, nullptr));
    for (size_t i = 0; i < out.size(); ++i)
      RANK_CHECK(out[i] == value(static_cast<int>(i / block), static_cast<size_t>(r.rank) * block + i % block));
    RANK_TRY(tuttiReduce(in.data(), out.data(), block, tuttiInt32, tuttiMax, r.nRanks - 1, r.comm, nullptr));
    for (size_t i = 0; r.rank == r.nRanks - 1 && i < block; ++i) RANK_CHECK(out[i] == value(r.nRanks - 1, i));
    if (r.rank == 0) out = in;
    RANK_TRY(tuttiBroadcast(out.data(), out.data(), block, tuttiInt32, 0, r.comm, nullptr));
    for (size_t i = 0; i < block; ++i) RANK_CHECK(out[i] == value(0, i));
    RANK_TRY(tuttiBarrier(r.comm, nullptr));
    return "";
  });
}

/// Sums in memory that peers map, which messages are large enough to be read in.
std::string sumsInMappedMemory(const Rank& r) {
  constexpr size_t count = 40'000;
  void *in = nullptr, *out = nullptr;
  RANK_TRY(tuttiMemAlloc(&in, count * sizeof(float)));
  RANK_TRY(tuttiMemAlloc(&out, count * sizeof(float)));
  auto* const sum = static_cast<float*>(out);
  for (size_t i = 0; i < count; ++i) static_cast<float*>(in)[i] = inputOf(r.rank)[i % kCount];
  const Call call = callOf(Collective::AllReduce, count, tuttiFloat32);
  std::vector<float> first;
  const auto keepsBits = [&](int number) -> std::string {
    std::fill_n(sum, count, -1.0F);
    RANK_TRY(tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, r.comm, nullptr));
    if (number == 0) first.assign(sum, sum + count);
    return std::memcmp(first.data(), sum, count * sizeof(float)) == 0 ? "" : "other bits";
  };
  if (std::string wrong = untilLearned(r, {call}, keepsBits); !wrong.empty()) return wrong;
  CallPlanner& planner = r.comm->comm->planner();
  const std::vector<TriedWay>& ways = learningOf(r)->kindOf(call)->ways;
  RANK_CHECK(std::ranges::count(ways, true, &TriedWay::copied) > 0);
  RANK_CHECK(std::ranges::count(ways, false, &TriedWay::copied) > 0);
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto entry = planner.plan(call, false, static_cast<uint8_t>(i));
    RANK_CHECK(entry.ok() && *entry != nullptr);
    RANK_CHECK(((*entry)->plan->leastMappedBytes == SIZE_MAX) == ways[i].copied);
  }
  const Result<std::vector<TriedWay>> inPlain = planner.waysOf(call, false);
  RANK_CHECK(inPlain.ok() && std::ranges::count(*inPlain, true, &TriedWay::copied) == 0);
  const Result<std::vector<TriedWay>> small = planner.waysOf(callOf(Collective::AllReduce, 64, tuttiFloat32), true);
  RANK_CHECK(small.ok() && std::ranges::count(*small, true, &TriedWay::copied) == 0);
  RANK_TRY(tuttiMemFree(in));
  RANK_TRY(tuttiMemFree(out));
  return "";
}

/// Some ranks make their calls in groups or on streams, whose times are not known; all take the same ways.
std::string mixedCalls(const Rank& r) {
  std::vector<int64_t> mine(64, r.rank), all(64 * static_cast<size_t>(r.nRanks));
  tuttiStream_t stream = nullptr;
  RANK_TRY(tuttiStreamCreate(&stream));
  const Call like = callOf(Collective::AllGather, mine.size(), tuttiInt64);
  const std::string wrong = untilLearned(r, {like}, [&](int call) -> std::string {
    std::ranges::fill(all, -1);
    const bool grouped = r.rank == 0 || call % 3 == 0;
    const tuttiStream_t on = r.rank == 1 ? stream : nullptr;
    if (grouped) RANK_TRY(tuttiGroupStart());
    RANK_TRY(tuttiAllGather(mine.data(), all.data(), mine.size(), tuttiInt64, r.comm, on));
    if (grouped) RANK_TRY(tuttiGroupEnd());
    if (on != nullptr) RANK_TRY(tuttiStreamSynchronize(on));
    for (size_t i = 0; i < all.size(); ++i) RANK_CHECK(all[i] == static_cast<int64_t>(i / 64));
    return "";
  });
  return tuttiStreamDestroy(stream) == tuttiSuccess ? wrong : "the stream stays";
}

/// Calls of these kinds in turns until all are learned; "" or what is wrong.  made: how many numbers the communicator
/// has given to collectives beyond them, which comparisons by calls take.
std::string callsInTurns(const Rank& r, const std::vector<Call>& kinds, uint64_t* made) {
  std::vector<int64_t> in(64 * static_cast<size_t>(r.nRanks)), out(in.size());
  uint64_t calls = 0;
  const std::string wrong = untilLearned(r, kinds, [&](int number) -> std::string {
    for (const Call& kind : kinds) {
      std::ranges::fill(in, r.rank + number);
      std::ranges::fill(out, -1);
      ++calls;
      const size_t count = kind.count;
      if (kind.collective == Collective::Broadcast) {
        RANK_TRY(tuttiBroadcast(in.data(), out.data(), count, tuttiInt64, kind.root, r.comm, nullptr));
        RANK_CHECK(out[count - 1] == kind.root + number);
      } else {
        RANK_TRY(tuttiAllGather(in.data(), out.data(), count, tuttiInt64, r.comm, nullptr));
        for (int rank = 0; rank < r.nRanks; ++rank)
          RANK_CHECK(out[(static_cast<size_t>(rank) + 1) * count - 1] == rank + number);
      }
    }
    return "";
  });
  *made = r.comm->comm->callOrder().numbers().collective() - calls;
  return wrong;
}

/// Makes no more calls, and is there until the communicator has failed.
std::string stayUntilOver(const Rank& r) {
  const Deadline deadline = Deadline::inMs(20'000);
  tuttiResult_t state = tuttiSuccess;
  while (state == tuttiSuccess && !deadline.passed()) RANK_TRY(tuttiCommGetAsyncError(r.comm, &state));
  return state != tuttiSuccess ? "" : "the communicator goes on";
}

/// Groups of calls on two communicators, which half of the ranks make in the other order.
std::string crossedGroups(const Rank& r) {
  tuttiComm_t other = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &other, nullptr));
  std::vector<int32_t> mine(96, r.rank + 1), sum(96), top(96);
  const Call like = callOf(Collective::AllReduce, mine.size(), tuttiInt32);
  const std::string wrong = untilLearned(r, {like}, [&](int) -> std::string {
    const auto onFirst = [&] {
      return tuttiAllReduce(mine.data(), sum.data(), mine.size(), tuttiInt32, tuttiSum, r.comm, nullptr);
    };
    const auto onSecond = [&] {
      return tuttiAllReduce(mine.data(), top.data(), mine.size(), tuttiInt32, tuttiMax, other, nullptr);
    };
    RANK_TRY(tuttiGroupStart());
    if (r.rank % 2 == 0) RANK_TRY(onFirst());
    RANK_TRY(onSecond());
    if (r.rank % 2 == 1) RANK_TRY(onFirst());
    RANK_TRY(tuttiGroupEnd());
    // A group's calls have no times of their own: those of calls by themselves are what is learned from.
    RANK_TRY(onFirst());
    RANK_TRY(onSecond());
    for (const int32_t value : sum) RANK_CHECK(value == r.nRanks * (r.nRanks + 1) / 2);
    for (const int32_t value : top) RANK_CHECK(value == r.nRanks);
    return "";
  });
  return tuttiCommDestroy(other) == tuttiSuccess ? wrong : "the other communicator stays";
}

}  // namespace

TEST_CASE("with TUTTI_LEARN=1 sums of floating-point numbers keep their bits while ways are tried") {
  const Variable learn("TUTTI_LEARN", "1");
  for (const int nRanks : {3, 4}) CHECK(onRanks(nRanks, [](const Rank& r) { return sumsStay(r, true); }) == "");
}

TEST_CASE("with TUTTI_LEARN=2 they may be rounded otherwise") {
  const Variable learn("TUTTI_LEARN", "2");
  CHECK(onRanks(4, [](const Rank& r) { return sumsStay(r, false); }) == "");
}

TEST_CASE("integers and copies are exact by every way that is tried") {
  const Variable learn("TUTTI_LEARN", "1");
  for (const int nRanks : {2, 3}) CHECK(onRanks(nRanks, integersAreExact) == "");
}

TEST_CASE("processes whose memory peers map also try copies of it, and sums keep their bits") {
  for (const int nRanks : {2, 3}) CHECK(inProcesses(nRanks, sumsInMappedMemory) == "");
}

TEST_CASE("ranks that would try different ways try none") {
  const auto differ = [](const Rank& r) -> std::string {
    std::vector<int64_t> mine(64, r.rank), all(64 * static_cast<size_t>(r.nRanks));
    const Call like = callOf(Collective::AllGather, mine.size(), tuttiInt64);
    Learning::Kind* const kind = learningOf(r)->kindOf(like);
    if (r.rank == 1) {
      kind->ways = *r.comm->comm->planner().waysOf(like, false);
      kind->ways.push_back(kind->ways.back());
    }
    const std::string wrong = untilLearned(r, {like}, [&](int) -> std::string {
      std::ranges::fill(all, -1);
      RANK_TRY(tuttiAllGather(mine.data(), all.data(), mine.size(), tuttiInt64, r.comm, nullptr));
      for (size_t i = 0; i < all.size(); ++i) RANK_CHECK(all[i] == static_cast<int64_t>(i / 64));
      return "";
    });
    RANK_CHECK(kind->trials.nWays() == 1 && kind->ways.size() == 1);
    return wrong;
  };
  CHECK(onRanks(3, differ) == "");
}

TEST_CASE("ranks that make a call in a group or on a stream take the way that the others take") {
  const Variable learn("TUTTI_LEARN", "1");
  CHECK(onRanks(3, mixedCalls) == "");
}

TEST_CASE("ranks of a host compare without calls of their own, and others by calls") {
  Call last = callOf(Collective::Broadcast, 20, tuttiInt64);
  last.root = 2;
  const std::vector<Call> kinds = {callOf(Collective::AllGather, 64, tuttiInt64),
                                   callOf(Collective::Broadcast, 50, tuttiInt64), last,
                                   callOf(Collective::AllGather, 1, tuttiInt64)};
  for (const std::string transport : {"shm", "tcp"}) {
    CAPTURE(transport);
    const Variable transports("TUTTI_TRANSPORTS", transport);
    const auto compare = [&](const Rank& r) -> std::string {
      uint64_t more = 0;
      if (std::string wrong = callsInTurns(r, kinds, &more); !wrong.empty()) return wrong;
      for (const Call& kind : kinds) RANK_CHECK(learningOf(r)->kindOf(kind)->trials.nWays() > 1);
      RANK_CHECK((learningOf(r)->comparison() != nullptr) == (transport == "shm"));
      RANK_CHECK(transport == "shm" ? more == 0 : more >= 3 * kinds.size());
      return "";
    };
    CHECK(onRanks(3, compare) == "");
    CHECK(inProcesses(3, compare) == "");
  }
}

TEST_CASE("a rank whose figures do not come is named") {
  const auto stopsEarly = [](const Rank& r) -> std::string {
    const Call call = callOf(Collective::Broadcast, 1000, tuttiFloat32);
    std::vector<float> data(call.count);
    const Trials& trials = learningOf(r)->kindOf(call)->trials;
    tuttiResult_t result = tuttiSuccess;
    for (int number = 0; result == tuttiSuccess && number < kMostCalls; ++number) {
      if (r.rank == 1 && trials.wants() != Trials::Wants::Nothing) return stayUntilOver(r);
      result = tuttiBroadcast(data.data(), data.data(), call.count, tuttiFloat32, 0, r.comm, nullptr);
    }
    RANK_CHECK(learningOf(r)->comparison() == nullptr || learningOf(r)->waitingOn() == 1);
    return tuttiGetLastError(r.comm);
  };
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = 500;
  const std::string complaints = onRanks(2, stopsEarly, &config);
  CHECK_THAT(complaints, Catch::StartsWith("rank 0: tuttiBroadcast: rank 0 waits for rank 1 in Broadcast number "));
  // Between hosts figures go by a call, which is not one of the user's.
  const Variable transports("TUTTI_TRANSPORTS", "tcp,self");
  CHECK_THAT(onRanks(2, stopsEarly, &config), Catch::Contains("rank 1 has not entered AllGather number ") &&
                                                  Catch::Contains("uint64, the library's own)"));
}

TEST_CASE("groups on two communicators in different orders learn as others do") {
  CHECK(onRanks(4, crossedGroups) == "");
}

TEST_CASE("calls teach by default, and nothing where it is switched off or sums are to be reproducible") {
  const auto learnsNothing = [](const Rank& r) { return std::string(learningOf(r) == nullptr ? "" : "it learns"); };
  CHECK(onRanks(2, learnsNothing) != "");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.reproducible = 1;
  CHECK(onRanks(2, learnsNothing, &config) == "");
  const Variable learn("TUTTI_LEARN", "0");
  CHECK(onRanks(2, learnsNothing) == "");
}

TEST_CASE("where figures were disturbed, calls also try the protocol that these make look bad") {
  const TempFolder folder;
  const Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  Calibration figures = defaultCalibration(thisMachine(), linkKinds());
  figures.times = kMostTimes;  // else they would be measured again
  for (Calibration::Link& link : figures.links) {
    link.costs[Protocol::Slots].cost = {10, 1};
    link.costs[Protocol::Direct].cost = {1, 10};
    for (const Protocol p : {Protocol::Slots, Protocol::Direct})
      link.costs[p].near = link.costs[p].far = {link.costs[p].cost.bandwidthGBps, link.costs[p].cost.bandwidthGBps};
  }
  const Call call = callOf(Collective::AllReduce, 64 << 10, tuttiFloat32);
  for (const double disturbed : {0.0, 0.5}) {
    figures.disturbed = disturbed;
    REQUIRE(writeCalibration(calibrationPath(thisMachine()), figures).ok());
    const auto tries = [&](const Rank& r) -> std::string {
      const Result<std::vector<TriedWay>> ways = r.comm->comm->planner().waysOf(call, false);
      RANK_CHECK(ways.ok() && ways->front().protocol == Protocol::Direct);
      const bool other =
          ways->size() > 1 && (*ways)[1].protocol == Protocol::Slots && (*ways)[1].algorithm == ways->front().algorithm;
      RANK_CHECK(other == (disturbed > 0));
      return "";
    };
    CHECK(onRanks(4, tries) == "");
  }
}

TEST_CASE("what one job learned the next one takes at once") {
  const TempFolder folder;
  const Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  const Call call = callOf(Collective::AllGather, 300, tuttiFloat32);
  const auto algorithm = [&](const Rank& r) { return std::string(r.comm->comm->planner().estimate(call)->algorithm); };
  const auto finds = [&](const Rank& r) -> std::string {
    // The slowest there is: nobody chooses it by cost.
    TunedWay found{call.collective, 1200, "ring", Protocol::Slots, 1e-3};
    RANK_CHECK(algorithm(r) != found.algorithm);
    learningOf(r)->keep(found);
    found.us *= 2;
    learningOf(r)->keep(found);
    return "";
  };
  REQUIRE(onRanks(5, finds) == "");
  const Tuning kept = tuningIn(thisMachine(), TuningFile::Learned);
  REQUIRE(kept.sets.size() == 1);
  REQUIRE(kept.sets[0].learned.size() == 1);
  CHECK(kept.sets[0].learned[0].us == 2e-3);
  const auto takes = [&](const Rank& r) { return algorithm(r) == "ring" ? "" : algorithm(r); };
  CHECK(onRanks(5, takes) == "");
  const auto triesOthers = [&](const Rank& r) -> std::string {
    const Result<std::vector<TriedWay>> ways = r.comm->comm->planner().waysOf(call, false);
    RANK_CHECK(ways.ok() && ways->front().algorithm->name == "ring" && ways->size() > 1);
    return "";
  };
  CHECK(onRanks(5, triesOthers) == "");
  CHECK(onRanks(4, takes) != "");  // other ranks than those that learned it
}

TEST_CASE("what a row of calls with a root taught is not kept for later jobs") {
  const TempFolder folder;
  const Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  for (const Collective collective : {Collective::Broadcast, Collective::AllGather}) {
    for (const int64_t awayNs : {0, 10'000}) {
      CAPTURE(callName(callOf(collective, 300, tuttiFloat32)), awayNs);
      size_t kept = 0;
      const auto learns = [&](const Rank& r) -> std::string {
        const Call call = callOf(collective, 300, tuttiFloat32);
        CallPlanner& planner = r.comm->comm->planner();
        Learning::Kind* const kind = learningOf(r)->kindOf(call);
        const Result<std::vector<TriedWay>> ways = planner.waysOf(call, false);
        RANK_CHECK(ways.ok() && ways->size() > 1);
        kind->ways = *ways;
        // As if this rank were alone; the second way takes half.
        int64_t now = 1'000'000;
        while (!kind->trials.settled()) {
          if (kind->trials.wants() == Trials::Wants::Times)
            kind->trials.settle(kind->trials.times(), callIsRooted(call));
          if (kind->trials.wants() == Trials::Wants::Ways) kind->trials.offer(2);
          if (kind->trials.wants() != Trials::Wants::Nothing) continue;
          const Trials::Turn turn = kind->trials.take();
          const int64_t ns = turn.way == 0 ? 8000 : 4000;
          if (turn.timed) kind->trials.record(turn, {ns, now});
          now += ns + awayNs;
        }
        planner.tellLearned(call, *kind);
        if (r.rank == 0) kept = learningOf(r)->takeKept().size();
        return "";
      };
      CHECK(onRanks(5, learns) == "");
      CHECK(kept == (collective == Collective::Broadcast && awayNs == 0 ? 0 : 1));
    }
  }
}

TEST_CASE("beside a way that was kept, a rank that explains its plans tries what the others try") {
  const TempFolder folder;
  const Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  const auto keeps = [](const Rank& r) -> std::string {
    learningOf(r)->keep({Collective::AllGather, 16'384, "ring", Protocol::Slots, 1e-3});
    return "";
  };
  REQUIRE(inProcesses(3, keeps) == "");
  const Variable explain("TUTTI_EXPLAIN", "1");
  const auto learns = [](const Rank& r) -> std::string {
    if (r.rank == 0 && std::freopen("/dev/null", "w", stderr) == nullptr) return "no /dev/null";  // for its tables
    std::vector<int64_t> mine(2048, r.rank), all(mine.size() * static_cast<size_t>(r.nRanks));
    const Call like = callOf(Collective::AllGather, mine.size(), tuttiInt64);
    const std::string wrong = untilLearned(r, {like}, [&](int) {
      return failed(tuttiAllGather(mine.data(), all.data(), mine.size(), tuttiInt64, r.comm, nullptr), "AllGather");
    });
    const std::vector<TriedWay>& ways = learningOf(r)->kindOf(like)->ways;
    RANK_CHECK(wrong != "" || (ways.size() > 1 && ways.front().algorithm->name == "ring"));
    return wrong;
  };
  CHECK(inProcesses(3, learns) == "");
}
