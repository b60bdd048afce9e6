// Rails of verbs that fail, on the adapters of tests/support/fake_verbs: what is left carries everything, once.
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/text.hpp"
#include "tests/conformance/each.hpp"
#include "tests/conformance/loopback.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/support/thorough.hpp"
#include "transport/verbs/arrivals.hpp"
#include "transport/verbs/transport.hpp"

using namespace tutti;
using namespace tutti::conformance;
using fake_verbs::Fault;

namespace {

fake_verbs::Fail* failer() {
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<fake_verbs::Fail*>(dlsym(library, fake_verbs::kFail));
}

unsigned long carried(const char* device) {
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
  return reinterpret_cast<fake_verbs::Carried*>(dlsym(library, fake_verbs::kCarried))(device);
}

#define NEEDS_FAKE()                                            \
  if (failer() == nullptr) {                                    \
    WARN("skipped, as libibverbs is not the one of the tests"); \
    return;                                                     \
  }

/// All ports are up again at the end.
struct Faults {
  ~Faults() {
    for (int i = 0; i < fake_verbs::kDevices; ++i) failer()(cat("fake_", i).c_str(), Fault::None, 0);
  }
  void operator()(const char* device, Fault fault, unsigned after) { failer()(device, fault, after); }
};

constexpr size_t kSlotBytes = 64 << 10;
constexpr int kMessages = 48;
constexpr int kEndless = 1 << 30;
constexpr std::array<size_t, 6> kSizes = {8, 200, 0, 3000, 40'000, kSlotBytes};

/// What a side sends: messages of all kinds, or messages alike of so many bytes, which go without their headers.
struct Traffic {
  bool posts = false;
  int messages = kMessages;
  size_t alike = 0;
  size_t sizeOf(int message) const { return alike > 0 ? alike : kSizes[static_cast<size_t>(message) % kSizes.size()]; }
  Fingerprint callOf(int message) const {
    const auto number = static_cast<uint32_t>(message);
    return alike > 0 ? makeFingerprint({.sequence = number, .count = 1}) : callNumber(number);
  }
};
std::byte contentOf(int rank, int message, size_t at) {
  return static_cast<std::byte>(rank * 101 + message * 7 + static_cast<int>(at % 251));
}

/// One rank of two: sends all its messages, receives all its peer's, and says what is wrong.
class Side {
 public:
  Side(int rank, Transport& transport, std::unique_ptr<Endpoint> endpoint, const Traffic& traffic)
      : rank_(rank), traffic_(traffic), endpoint_(std::move(endpoint)) {
    const auto keep = [&](std::vector<std::byte>& memory) {
      auto kept = transport.registerMemory({MemoryKind::Host, -1, memory.data(), memory.size()});
      REQUIRE(kept.status().message() == "");
      kept_.push_back(std::move(*kept));
    };
    for (std::vector<std::byte>* memory : {&out_, &in_}) {
      memory->resize(kSlotBytes);
      keep(*memory);
    }
  }
  /// True when all is there.
  Result<bool> step() {
    if (sent_ < traffic_.messages) {
      TUTTI_ASSIGN(const bool gone, send());
      if (gone) ++sent_;
    }
    if (received_ < traffic_.messages) {
      TUTTI_ASSIGN(const bool came, receive());
      if (came) ++received_;
    }
    return sent_ == traffic_.messages && received_ == traffic_.messages;
  }
  int received() const { return received_; }

 private:
  Result<bool> send() {
    const size_t bytes = traffic_.sizeOf(sent_);
    const Fingerprint call = traffic_.callOf(sent_);
    if (going_ == 0)
      for (size_t i = 0; i < bytes; ++i) out_[i] = contentOf(rank_, sent_, i);
    if (!traffic_.posts) return endpoint_->send(out_.data(), bytes, call);
    if (going_ == 0) {
      TUTTI_ASSIGN(going_, endpoint_->postSend(out_.data(), bytes, call));
      if (going_ == 0) return false;
    }
    TUTTI_ASSIGN(const bool done, endpoint_->test(going_));
    if (done) going_ = 0;
    return done;
  }
  Result<bool> receive() {
    const Expect expect{traffic_.sizeOf(received_), traffic_.callOf(received_)};
    if (traffic_.posts && coming_ == 0) {
      TUTTI_ASSIGN(coming_, endpoint_->postReceive(in_.data(), expect));
      if (coming_ == 0) return false;
    }
    TUTTI_ASSIGN(const bool came, traffic_.posts ? endpoint_->test(coming_) : endpoint_->receive(in_.data(), expect));
    if (!came) return false;
    coming_ = 0;
    for (size_t i = 0; i < expect.bytes; ++i) {
      if (in_[i] != contentOf(1 - rank_, received_, i))
        return remoteError("message ", received_, " of rank ", 1 - rank_, " is wrong at byte ", i);
    }
    std::fill(in_.begin(), in_.end(), std::byte{0xee});
    return true;
  }

  const int rank_;
  const Traffic traffic_;
  std::vector<std::byte> out_, in_;
  std::vector<std::unique_ptr<MemoryRegistration>> kept_;
  std::unique_ptr<Endpoint> endpoint_;
  int sent_ = 0, received_ = 0;
  Request going_ = 0, coming_ = 0;
};

struct Ways {
  verbs::Options first, second;
};

class World {
 public:
  World(const Ways& ways, const Traffic& traffic) {
    transports_[0] = std::make_unique<VerbsTransport>(views_[0], 0, ways.first);
    transports_[1] = std::make_unique<VerbsTransport>(views_[1], 1, ways.second);
    Result<Pair> pair = connectBoth(transports_, 0);
    REQUIRE(pair.status().message() == "");
    sides_[0] = std::make_unique<Side>(0, *transports_[0], std::move(pair->a), traffic);
    sides_[1] = std::make_unique<Side>(1, *transports_[1], std::move(pair->b), traffic);
  }
  /// Until both have all, or `until` says so; the first complaint, "" if there is none.
  template <class Until>
  std::string run(Until until) {
    bool done[2] = {false, false};
    std::string wrong;
    const Deadline deadline = Deadline::inMs(60'000);
    while (wrong.empty() && !(done[0] && done[1]) && !until()) {
      for (const int rank : {0, 1}) {
        if (done[rank]) {
          transports_[rank]->progress();
          continue;
        }
        const Result<bool> step = sides_[rank]->step();
        if (!step.ok()) wrong = cat("rank ", rank, ": ", step.status().message());
        done[rank] = step.ok() && *step;
      }
      if (deadline.passed()) wrong = cat("stuck after ", received(0), " and ", received(1), " messages");
    }
    return wrong;
  }
  std::string run() {
    return run([] { return false; });
  }
  int received(int rank) const { return sides_[rank]->received(); }

 private:
  LoopbackStreams streams_{AF_INET, 0};
  LoopbackStreams::Of views_[2] = {{streams_, 0}, {streams_, 1}};
  std::unique_ptr<Transport> transports_[2];
  std::unique_ptr<Side> sides_[2];
};

verbs::Options with(const char* adapters, uint32_t rails, uint32_t queuePairs = 1) {
  return {.adapters = adapters,
          .rails = rails,
          .queuePairs = queuePairs,
          .splits = queuePairs > 1,
          .slotBytes = kSlotBytes};
}

}  // namespace

TEST_CASE("one of two rails fails at any operation, in any way: nothing is lost, and nothing comes twice") {
  NEEDS_FAKE();
  struct Row {
    const char *first, *second, *fails;
    uint32_t queuePairs;
  };
  const Row row = GENERATE(values<Row>({{"=fake_0,fake_1", "=fake_0,fake_1", "fake_0", 1},
                                        {"=fake_0,fake_1", "=fake_2,fake_3", "fake_0", 1},
                                        {"=fake_0,fake_1", "=fake_2,fake_3", "fake_3", 2}}));
  const Fault fault = GENERATE(Fault::Lost, Fault::Unacknowledged, Fault::PortDown);
  const bool posts = GENERATE(false, true);
  CAPTURE(row.first, row.second, row.fails, row.queuePairs, static_cast<int>(fault), posts);
  for (const unsigned after : {0U, 1U, 2U, 5U, 9U, 14U, 30U, 61U}) {
    CAPTURE(after);
    Faults faults;
    World world({with(row.first, 2, row.queuePairs), with(row.second, 2, row.queuePairs)}, {.posts = posts});
    if (fault == Fault::PortDown) {
      REQUIRE(world.run([&] { return world.received(0) >= static_cast<int>(after) / 2; }) == "");
    }
    faults(row.fails, fault, after);
    CHECK(world.run() == "");
  }
}

TEST_CASE("messages without headers come once each, in order, when a rail of theirs fails") {
  NEEDS_FAKE();
  const char* const fails = GENERATE(as<const char*>{}, "fake_0", "fake_3");
  const Fault fault = GENERATE(Fault::Lost, Fault::Unacknowledged, Fault::PortDown);
  // Of 4 KiB all by the first rail, of 20 KiB by turns.
  const Traffic traffic =
      GENERATE(values<Traffic>({{.alike = 4096}, {.posts = true, .alike = 4096}, {.alike = 20'480}}));
  CAPTURE(fails, static_cast<int>(fault), traffic.posts, traffic.alike);
  for (const unsigned after : {0U, 1U, 2U, 5U, 14U, 30U, 61U}) {
    CAPTURE(after);
    Faults faults;
    World world({with("=fake_0,fake_1", 2), with("=fake_2,fake_3", 2)}, traffic);
    if (fault == Fault::PortDown) {
      REQUIRE(world.run([&] { return world.received(0) >= static_cast<int>(after) / 2; }) == "");
    }
    faults(fails, fault, after);
    CHECK(world.run() == "");
  }
}

namespace {

/// Two ranks, an adapter each.
struct OneRail {
  LoopbackStreams streams{AF_INET, 0};
  LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<Transport> transports[2] = {std::make_unique<VerbsTransport>(views[0], 0, with("=fake_0", 1)),
                                              std::make_unique<VerbsTransport>(views[1], 1, with("=fake_2", 1))};
  Result<Pair> pair = connectBoth(transports, 0);
};

}  // namespace

TEST_CASE("a message like the one before goes without its header where that would take a packet") {
  NEEDS_FAKE();
  OneRail rail;
  auto& transports = rail.transports;
  Result<Pair>& pair = rail.pair;
  REQUIRE(pair.status().message() == "");
  const Fingerprint call = makeFingerprint({.sequence = 0xffffff, .root = 3, .count = 5}), next = nextOf(call);
  const Fingerprint other = makeFingerprint({.sequence = 0xffffff, .root = 3, .count = 6});
  struct Row {
    size_t bytes;
    Fingerprint call;
    bool bare;
  };
  std::byte content{0};
  // Three times, so that every kind comes to slots that held another.
  for (int round = 0; round < 3; ++round) {
    for (const Row& row : {Row{4096, call, false},
                           {4096, call, true},
                           {4096, next, true},
                           {4096, next, true},
                           {4096, next, true},
                           {4096, next, true},
                           {4096, call, false},
                           {4096, other, false},
                           {4088, other, false},
                           {4088, other, true},
                           {4056, other, false},
                           {4056, other, false},
                           {0, other, false},
                           {0, other, false},
                           {kSlotBytes, other, false},
                           {kSlotBytes, other, true}}) {
      CAPTURE(round, row.bytes, row.bare, describeCall(row.call));
      const std::vector<std::byte> out(row.bytes, content = static_cast<std::byte>(static_cast<int>(content) + 1));
      std::vector<std::byte> in(row.bytes);
      REQUIRE_FALSE(pair->second().pending());
      REQUIRE_FALSE(*pair->second().receive(in.data(), {row.bytes, row.call}));
      const unsigned long before = carried("fake_0");
      REQUIRE(*pair->first().send(out.data(), out.size(), row.call));
      CHECK(carried("fake_0") - before == row.bytes + (row.bare ? 0 : verbs::kHeaderBytes));
      transports[1]->progress();
      CHECK(pair->second().pending() == row.call);
      REQUIRE(*pair->second().receive(in.data(), {row.bytes, row.call}));
      CHECK(in == out);
    }
  }
}

TEST_CASE("messages without headers release those of the other direction") {
  NEEDS_FAKE();
  OneRail rail;
  Result<Pair>& pair = rail.pair;
  REQUIRE(pair.status().message() == "");
  std::vector<std::byte> memory(4096);
  for (uint32_t number = 1; number < 40; ++number) {
    const Fingerprint call = makeFingerprint({.sequence = number, .count = 1});
    for (Endpoint* end : {&pair->first(), &pair->second()}) {
      Endpoint& peer = end == &pair->first() ? pair->second() : pair->first();
      const unsigned long before = carried("fake_0") + carried("fake_2");
      REQUIRE(*end->send(memory.data(), memory.size(), call));
      const bool bare = carried("fake_0") + carried("fake_2") - before == memory.size();
      CHECK(bare == (number > 1));
      REQUIRE(*peer.receive(memory.data(), {memory.size(), call}));
    }
  }
}

TEST_CASE("of three rails two fail, one after the other, and the third carries everything") {
  NEEDS_FAKE();
  const bool posts = GENERATE(false, true);
  for (const unsigned after : {0U, 3U, 10U}) {
    CAPTURE(posts, after);
    Faults faults;
    World world({with("=fake_0,fake_1,fake_2", 3, 2), with("=fake_0,fake_1,fake_2", 3, 2)}, {.posts = posts});
    faults("fake_0", Fault::Unacknowledged, after);
    faults("fake_2", Fault::Lost, 2 * after);
    CHECK(world.run() == "");
  }
}

TEST_CASE("a rail that comes back carries its part again, and the whole when the other fails", "[thorough]") {
  NEEDS_FAKE();
  struct Row {
    const char *fails, *itsPeer, *other, *othersPeer;
    uint32_t queuePairs;
  };
  const Row row = GENERATE(values<Row>({{"fake_0", "fake_2", "fake_1", "fake_3", 1},
                                        {"fake_0", "fake_2", "fake_1", "fake_3", 2},
                                        {"fake_3", "fake_1", "fake_2", "fake_0", 1}}));
  const Fault fault = GENERATE(Fault::Lost, Fault::Unacknowledged, Fault::PortDown);
  const bool posts = GENERATE(false, true);
  if (!test::kThorough && posts != (row.queuePairs == 2)) return;
  CAPTURE(row.fails, row.queuePairs, static_cast<int>(fault), posts);
  Faults faults;
  World world({with("=fake_0,fake_1", 2, row.queuePairs), with("=fake_2,fake_3", 2, row.queuePairs)},
              {.posts = posts, .messages = kEndless});
  const auto receive = [&](int more) {
    const int all = world.received(0) + more;
    return world.run([&] { return world.received(0) >= all; });
  };
  const auto carry = [&](const char* device, const char* itsPeer) {  // each end, so that both use it again
    const unsigned long here = carried(device) + 5 * kSlotBytes, there = carried(itsPeer) + 5 * kSlotBytes;
    return world.run([&] { return carried(device) >= here && carried(itsPeer) >= there; });
  };
  for (const unsigned after : {0U, 7U}) {
    CAPTURE(after);
    REQUIRE(receive(5) == "");
    faults(row.fails, fault, after);
    REQUIRE(receive(60) == "");
    const unsigned long before = carried(row.fails);
    if (fault != Fault::Unacknowledged) {
      REQUIRE(receive(20) == "");
      CHECK(carried(row.fails) == before);
    }
    faults(row.fails, Fault::None, 0);
    REQUIRE(carry(row.fails, row.itsPeer) == "");
  }
  faults(row.other, fault, 0);
  REQUIRE(receive(60) == "");
  faults(row.other, Fault::None, 0);
  CHECK(carry(row.other, row.othersPeer) == "");
}

TEST_CASE("when the last rail fails, too, a rank says which and why") {
  NEEDS_FAKE();
  Faults faults;
  World world({with("=fake_0,fake_1", 2), with("=fake_2,fake_3", 2)}, {});
  REQUIRE(world.run([&] { return world.received(0) >= 5; }) == "");
  faults("fake_1", Fault::PortDown, 0);
  REQUIRE(world.run([&] { return world.received(0) >= 20; }) == "");
  faults("fake_0", Fault::Lost, 0);
  // Which one is seen first is open: an event is looked for now and then.
  CHECK_THAT(world.run(), Catch::Matches("rank [01]: rank [01] over verbs \\(fake_[0-3]:1\\): "
                                         "(transport retry counter exceeded|port error).*"));
}

TEST_CASE("a connection that opens when one of its ports is down goes by the other") {
  NEEDS_FAKE();
  Faults faults;
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<Transport> transports[2];
  for (const int rank : {0, 1})
    transports[rank] = std::make_unique<VerbsTransport>(views[rank], rank, with("=fake_0,fake_1", 2));
  REQUIRE(connectBoth(transports, 0).status().message() == "");
  faults("fake_0", Fault::PortDown, 0);
  Sleeper& sleeper = *transports[0]->sleeper();
  sleeper.prepare();  // looks at the ports' events
  sleeper.cancel();
  Result<Pair> pair = connectBoth(transports, 1);
  REQUIRE(pair.status().message() == "");
  const std::vector<std::byte> out(40'000, std::byte{3});
  std::vector<std::byte> in(40'000);
  bool gone = false;
  const Result<bool> came = awaitValue(
      [&]() -> Result<bool> {
        if (!gone) {
          TUTTI_ASSIGN(gone, pair->first().send(out.data(), out.size(), callNumber(1)));
        }
        transports[0]->progress();
        return pair->second().receive(in.data(), {in.size(), callNumber(1)});
      },
      Deadline::inMs(20'000), "a message");
  CHECK(came.status().message() == "");
  CHECK(in == out);
}

TEST_CASE("pieces may come in any order and again, and count once") {
  using Told = verbs::Arrivals::Told;
  using Whole = verbs::Arrivals::Whole;
  verbs::Arrivals arrivals(4);
  CHECK(arrivals.tell(2, 0) == Told::New);
  CHECK_FALSE(arrivals.hasHeader());
  CHECK(arrivals.tell(1, 1) == Told::New);
  CHECK_FALSE(arrivals.hasHeader());
  CHECK(arrivals.tell(1, 1) == Told::Again);
  CHECK(arrivals.tell(1, 0) == Told::New);
  REQUIRE(arrivals.hasHeader());
  CHECK(arrivals.countIfWhole(3) == Whole::No);
  CHECK(arrivals.tell(1, 2) == Told::New);
  CHECK(arrivals.countIfWhole(3) == Whole::Yes);
  CHECK(arrivals.countIfWhole(1) == Whole::Yes);
  CHECK(arrivals.complete() == 2);
  CHECK(arrivals.tell(1, 0) == Told::Again);
  CHECK(arrivals.tell(2, 0) == Told::Again);
  CHECK(arrivals.tell(7, 0) == Told::Odd);
  CHECK(arrivals.tell(6, 0) == Told::New);
  CHECK(verbs::pieceOf(verbs::pieceWord(5, 63)) == 63);
  CHECK(verbs::lostRailOf(verbs::lostRailWord(3, 13, 77)) == 3);
  CHECK(verbs::lostGenerationOf(verbs::lostRailWord(3, 13, 77)) == 5);
  CHECK((verbs::lostRailWord(3, 13, 77) & verbs::kCounterBits) == 77);
}

TEST_CASE("a message does not count with pieces that are not its own, nor with none") {
  using Whole = verbs::Arrivals::Whole;
  for (const uint32_t pieces : {0U, 65U, 0xffffU}) {
    verbs::Arrivals arrivals(4);
    (void)arrivals.tell(1, 0);
    CHECK(arrivals.countIfWhole(pieces) == Whole::Odd);
    CHECK(arrivals.complete() == 0);
  }
  verbs::Arrivals arrivals(4);
  (void)arrivals.tell(1, 0);
  (void)arrivals.tell(1, 5);
  CHECK(arrivals.countIfWhole(2) == Whole::Odd);
}
