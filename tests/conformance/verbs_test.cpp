// What is particular to verbs: which port and which address, what the ends tell each other, and how failures read.
#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/each.hpp"
#include "tests/conformance/loopback.hpp"
#include "transport/verbs/entry.hpp"
#include "transport/verbs/transport.hpp"
#include "transport/verbs/wire.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

verbs::Gid gid(int index, const char* address, bool routable) {
  verbs::Gid gid{.index = index, .routable = routable};
  inet_pton(AF_INET6, address, gid.raw.raw);
  return gid;
}

int chosen(const std::vector<verbs::Gid>& gids) {
  const auto best = verbs::chooseGid(gids);
  return best ? best->index : -1;
}

constexpr int kSleepUs = 20'000'000;  // a wake-up that is missed shows as a test that takes this long
constexpr PeerInfo kHere{.rank = 0, .hostId = 1}, kBeside{.rank = 1, .hostId = 1}, kThere{.rank = 2, .hostId = 2};

struct Two {
  LoopbackStreams streams{AF_INET, 0};
  LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<Transport> transports[2];
  Two(const verbs::Options& a, const verbs::Options& b) {
    transports[0] = std::make_unique<VerbsTransport>(views[0], 0, a);
    transports[1] = std::make_unique<VerbsTransport>(views[1], 1, b);
  }
};

/// Why there is no device here; "" if there is one.
const std::string& lacking() {
  static const std::string why = verbs::Device::open({}).status().message();
  return why;
}

#define NEEDS_DEVICE()                                             \
  if (!lacking().empty()) {                                        \
    REQUIRE(std::getenv("TUTTI_TEST_ROWS") == nullptr);            \
    WARN("skipped, as this machine has no device: " << lacking()); \
    return;                                                        \
  }

}  // namespace

TEST_CASE("of RoCE's addresses v2 with IPv4 comes first, and one that is routed before one that is not") {
  const auto v1 = gid(0, "fe80::1", false), v2 = gid(1, "fe80::1", true), old4 = gid(2, "::ffff:10.0.0.1", false),
             new4 = gid(3, "::ffff:10.0.0.1", true), global = gid(4, "2001:db8::1", true),
             local4 = gid(5, "::ffff:169.254.1.1", true), none = gid(6, "::", true),
             next4 = gid(7, "::ffff:10.0.0.2", true);
  CHECK(chosen({v1, v2, old4, new4, global, next4}) == 3);
  CHECK(chosen({v1, v2, old4, global}) == 4);
  CHECK(chosen({v1, local4, old4, v2}) == 5);
  CHECK(chosen({v1, old4}) == 2);
  CHECK(chosen({none, v1}) == 0);
  CHECK(chosen({none}) == -1);
  CHECK(new4.text() == "::ffff:10.0.0.1 (RoCE v2)");
}

TEST_CASE("addresses of RoCE are narrowed by family, range and version, and what is no such is refused by name") {
  const std::vector<verbs::Gid> all = {gid(0, "fe80::1", true), gid(1, "::ffff:10.1.2.3", false),
                                       gid(2, "::ffff:10.1.2.3", true), gid(3, "fd00::5", true),
                                       gid(4, "::ffff:192.168.0.9", true)};
  struct Case {
    const char *family, *range;
    int version, chosen;
  };
  for (const Case& c : {Case{"", "", 0, 2},
                        {"AF_INET6", "", 0, 3},
                        {"AF_INET", "", 1, 1},
                        {"", "192.168.0.0/16", 0, 4},
                        {"", "::ffff:192.168.0.0/112", 0, 4},
                        {"", "fd00::/8", 0, 3},
                        {"", "10.1.2.3", 0, 2},
                        {"", "10.1.2.4", 0, -1},
                        {"AF_INET", "fd00::/8", 0, -1},
                        {"", "0.0.0.0/0", 0, 2}}) {
    CAPTURE(c.family, c.range, c.version);
    const auto filter = verbs::GidFilter::parse(c.family, c.range, c.version);
    REQUIRE(filter.status().message() == "");
    const auto best = verbs::chooseGid(all, *filter);
    CHECK((best ? best->index : -1) == c.chosen);
  }
  CHECK(verbs::GidFilter::parse("AF_INET", "10.0.0.0/8", 2)->text() ==
        "TUTTI_IB_ADDR_FAMILY=AF_INET, TUTTI_IB_ADDR_RANGE=10.0.0.0/8, TUTTI_IB_ROCE_VERSION_NUM=2");
  CHECK(verbs::GidFilter::parse("AF_UNIX", "", 0).status().message().starts_with("TUTTI_IB_ADDR_FAMILY='AF_UNIX'"));
  for (const char* wrong : {"10.0.0.0/33", "10.0.0/8", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/x", "/8"}) {
    CAPTURE(wrong);
    CHECK(verbs::GidFilter::parse("", wrong, 0).status().message().starts_with("TUTTI_IB_ADDR_RANGE='"));
  }
}

TEST_CASE("ports stand in the order of the list that allows them") {
  CHECK(verbs::placeInList("=mlx5_3,mlx5_0:2", "mlx5_3", 1) == 0);
  CHECK(verbs::placeInList("=mlx5_3,mlx5_0:2", "mlx5_0", 2) == 1);
  CHECK(verbs::placeInList("mlx5", "mlx5_7", 1) == 0);
  CHECK(verbs::placeInList("^mlx5_3", "mlx5_0", 1) == 0);
}

TEST_CASE("an adapter's way to a device counts as NCCL has it") {
  struct Row {
    const char *adapter, *device;
    int adapterNode, deviceNode;
    PciDistance distance;
  };
  const std::string root = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0";
  for (const Row& row : {
           Row{"/0000:17:00.0/0000:18:00.0", "/0000:17:01.0/0000:19:00.0", 0, 0, PciDistance::Pix},
           Row{"/0000:17:00.0/0000:18:00.0", "/0000:17:01.0/0000:20:00.0/0000:21:00.0/0000:22:00.0", 0, 0,
               PciDistance::Pxb},
       }) {
    CHECK(pciDistance(root + row.adapter, row.adapterNode, root + row.device, row.deviceNode) == row.distance);
  }
  for (const Row& row : {
           Row{"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0", "/sys/devices/pci0000:15/0000:15:02.0/0000:1a:00.0",
               -1, -1, PciDistance::Phb},
           Row{"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0", "/sys/devices/pci0000:30/0000:30:02.0/0000:31:00.0",
               1, 1, PciDistance::Phb},
           Row{"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0", "/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0",
               0, 1, PciDistance::Sys},
           Row{"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0", "/sys/devices/virtual/net/x", -1, -1,
               PciDistance::Sys},
       }) {
    CHECK(pciDistance(row.adapter, row.adapterNode, row.device, row.deviceNode) == row.distance);
  }
  CHECK(checkDistance("mlx5_0", "/no/such/adapter", "0000:00:00.0", PciDistance::Pix).ok());
  const Status never = checkDistance("mlx5_0", "/no/such/adapter", "0000:00:00.0", PciDistance::Loc);
  CHECK(never.message() == "TUTTI_NET_GDR_LEVEL=LOC excludes it");
}

TEST_CASE("ranks of a host take ports by turns, near ones first, unless a list says in which order") {
  using Ports = std::vector<verbs::PortFacts>;
  const auto port = [](int node, uint64_t fabric = 1, uint64_t speed = 4, size_t listed = 0) {
    return verbs::PortFacts{.listed = listed, .numaNode = node, .fabric = fabric, .speed = speed};
  };
  const Ports four = {port(0), port(0), port(1), port(1)};
  const Ports mixed = {port(0), port(0, 2), port(0), port(0, 1, 1)};  // another fabric, and a slower port
  const Ports listed = {port(0, 1, 4, 1), port(1, 1, 4, 0)};
  struct Row {
    Ports ports;
    std::vector<int> nodes;
    int localRank;
    uint32_t rails;
    std::vector<size_t> order;
  };
  for (const Row& row : {Row{four, {0, 1}, 0, 1, {0, 1, 2, 3}},
                         {four, {0, 1}, 1, 1, {1, 2, 3, 0}},
                         {four, {0, 1}, 5, 1, {1, 2, 3, 0}},
                         {four, {0, 1}, 1, 2, {2, 3, 0, 1}},
                         {four, {1}, 0, 1, {2, 3, 0, 1}},
                         {four, {1}, 1, 1, {3, 2, 0, 1}},
                         {four, {}, 2, 1, {2, 3, 0, 1}},
                         {four, {7}, 1, 1, {1, 2, 3, 0}},
                         {{port(-1), port(-1)}, {0}, 1, 1, {1, 0}},
                         {{port(1), port(-1)}, {0}, 1, 1, {1, 0}},
                         {mixed, {0}, 0, 1, {0, 2, 1, 3}},
                         {mixed, {0}, 1, 1, {2, 0, 1, 3}},
                         {listed, {0}, 0, 1, {1, 0}},
                         {listed, {0}, 1, 1, {1, 0}},
                         {{port(0)}, {0}, 3, 4, {0}},
                         {{}, {0}, 3, 1, {}}}) {
    CAPTURE(row.ports.size(), row.nodes, row.localRank, row.rails);
    CHECK(verbs::orderOfPorts(row.ports, row.nodes, row.localRank, row.rails) == row.order);
  }
}

TEST_CASE("a list of adapters allows beginnings of names, whole names, or all others, with ports") {
  struct Case {
    const char* list;
    const char* device;
    int port;
    bool allowed;
  };
  for (const Case& c : {Case{"", "mlx5_0", 1, true},
                        {"mlx5", "mlx5_10", 1, true},
                        {"=mlx5_1", "mlx5_10", 1, false},
                        {"=mlx5_1,rxe0", "rxe0", 2, true},
                        {"mlx5_0:2", "mlx5_0", 1, false},
                        {"mlx5_0:2", "mlx5_0", 2, true},
                        {"^mlx5_0", "mlx5_0", 1, false},
                        {"^mlx5_0", "mlx4_0", 1, true},
                        {"^=mlx5_1", "mlx5_10", 1, true},
                        {"^mlx5_0:2", "mlx5_0", 1, true}}) {
    CAPTURE(c.list, c.device, c.port);
    CHECK(verbs::allowsPort(c.list, c.device, c.port) == c.allowed);
  }
}

TEST_CASE("the low bits of a counter give the whole one, and none beyond what may be under way") {
  CHECK(verbs::widen(5, 3, 4) == 5);
  CHECK(verbs::widen(3, 3, 4) == 3);
  CHECK_FALSE(verbs::widen(8, 3, 4));
  CHECK_FALSE(verbs::widen(2, 3, 4));
  const uint64_t wrap = uint64_t{verbs::kCounterBits} * 5 + 3;
  CHECK(verbs::widen(static_cast<uint32_t>(wrap + 2) & verbs::kCounterBits, wrap, 4) == wrap + 2);
}

TEST_CASE("a bare message's header follows from the one before and 32 bits, or travels") {
  const verbs::Header before{.call = makeFingerprint({.sequence = 0xffffff, .op = 2, .count = 9}),
                             .check = 77,
                             .bytes = 8192,
                             .released = verbs::kCounterBits,
                             .silent = 1,
                             .number = 0xffffffff};
  verbs::Header like = before;
  like.check = 0;
  like.silent = 0;
  like.number = 0;
  struct Row {
    const char* differs;
    void (*change)(verbs::Header&);
    bool bare;
  };
  for (const Row& row : {Row{"nothing", [](verbs::Header&) {}, true},
                         {"next call", [](verbs::Header& h) { h.call = nextOf(h.call); }, true},
                         {"released", [](verbs::Header& h) { h.released = 2; }, true},
                         {"much released", [](verbs::Header& h) { h.released = 3; }, false},
                         {"less released", [](verbs::Header& h) { --h.released; }, false},
                         {"call after the next", [](verbs::Header& h) { h.call = nextOf(nextOf(h.call)); }, false},
                         {"count", [](verbs::Header& h) { ++h.call.count; }, false},
                         {"kind of call", [](verbs::Header& h) { ++h.call.head; }, false},
                         {"bytes", [](verbs::Header& h) { h.bytes = 4096; }, false},
                         {"pieces", [](verbs::Header& h) { h.pieces = 2; }, false},
                         {"lent", [](verbs::Header& h) { h.lent = 1; }, false},
                         {"awake", [](verbs::Header& h) { h.awake = 1; }, false},
                         {"number", [](verbs::Header& h) { ++h.number; }, false}}) {
    CAPTURE(row.differs);
    verbs::Header header = like;
    row.change(header);
    const std::optional<uint32_t> word = verbs::bareWord(before, header);
    REQUIRE(word.has_value() == row.bare);
    if (!word) continue;
    CHECK(verbs::isBare(*word));
    CHECK(verbs::bareHeader(before, *word) == header);
  }
  for (const uint32_t word : {verbs::pieceWord(5, 63), verbs::pieceWord(0, 0), verbs::lostRailWord(3, 7, ~uint64_t{0}),
                              verbs::kSleeps | verbs::kCounterBits, verbs::kCounterBits}) {
    CAPTURE(word);
    CHECK_FALSE(verbs::isBare(word));
  }
}

TEST_CASE("a header takes a packet where the payload nearly fills its last one") {
  constexpr size_t kLeast = 4096 - verbs::kHeaderBytes + 1;
  for (const size_t packets : {size_t{0}, size_t{1}, size_t{31}}) {
    const size_t begin = packets * 4096;
    CHECK_FALSE(verbs::takesPacket(begin + 1, 4096));
    CHECK_FALSE(verbs::takesPacket(begin + kLeast - 1, 4096));
    CHECK(verbs::takesPacket(begin + kLeast, 4096));
    CHECK(verbs::takesPacket(begin + 4096, 4096));
  }
  CHECK_FALSE(verbs::takesPacket(0, 4096));
  CHECK(verbs::takesPacket(1024, 1024));
}

TEST_CASE("ends that are not set alike refuse each other by the variable's name") {
  verbs::ConnectionCard mine, theirs;
  CHECK(verbs::checkCard(mine, theirs, 3).ok());
  theirs.slots = 9;
  CHECK(verbs::checkCard(mine, theirs, 3).message() ==
        "TUTTI_SLOTS is 0 here and 9 on rank 3; it must be the same on all ranks");
  theirs = {.slotBytes = 7};
  CHECK(verbs::checkCard(mine, theirs, 3).message().starts_with("TUTTI_SLOT_BYTES is 0 here and 7 on rank 3"));
  theirs = {.queuePairs = 4};
  CHECK(verbs::checkCard(mine, theirs, 3).message().starts_with("TUTTI_IB_QPS_PER_CONNECTION is 1 here and 4 on"));
  theirs = {.rails = 2};
  theirs.rail[1].ethernet = 1;
  CHECK(verbs::checkCard(mine, theirs, 3).ok());  // it has no counterpart here
  mine.rails = 2;
  CHECK(verbs::checkCard(mine, theirs, 3).message().starts_with("port 2 of this rank's and of rank 3's are one of"));
  CHECK(verbs::commonRails(mine, theirs) == 2);
  for (const uint32_t rails : {0U, verbs::kMostRails + 1}) {
    theirs = {.rails = rails};
    CHECK(verbs::checkCard(mine, theirs, 3).code() == tuttiRemoteError);
  }
  theirs = {.rails = 1};
  theirs.rail[0].mtu = 9;
  CHECK(verbs::checkCard(mine, theirs, 3).message() == "rank 3 sent a card of a verbs port that makes no sense");
  theirs.rail[0] = {.readsServed = 0x8000'0000};
  CHECK(verbs::checkCard(mine, theirs, 3).code() == tuttiRemoteError);
  theirs = {.magic = 0};
  CHECK(verbs::checkCard(mine, theirs, 3).code() == tuttiRemoteError);
}

TEST_CASE("a rank without a device says why, has no address, and judges others' links all the same") {
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of view(streams, 0);
  VerbsTransport without(view, 0, {.adapters = "=none"});
  const Result<LinkProfile> link = without.reach(kHere, kBeside);
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().code() == tuttiInvalidUsage);
  CHECK(link.status().message() != "");
  CHECK(without.address().empty());
  CHECK(without.sleeper() == nullptr);
  CHECK(without.reach(kBeside, kThere).value().key == "verbs-remote");
  CHECK_FALSE(without.reach(kBeside, kBeside).ok());
  CHECK(without.beginConnect(1, "verbs3 x:1", 0)->poll().status().message() == link.status().message());
  const Result<std::unique_ptr<MemoryRegistration>> kept = without.registerMemory({});
  CHECK(kept.status().message() == link.status().message());
}

TEST_CASE("a rank with a device reaches others, by one that is allowed") {
  NEEDS_DEVICE();
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of view(streams, 0);
  const VerbsTransport with(view, 0, {});
  CHECK(with.reach(kHere, kBeside).value().key == "verbs-local");
  CHECK(with.reach(kHere, kThere).value().key == "verbs-remote");
  CHECK(with.address().starts_with("verbs3 "));
  const VerbsTransport wrong(view, 0, {.gidIndex = 250});
  CHECK(wrong.reach(kHere, kBeside).status().message().find("TUTTI_IB_GID_INDEX=250") != std::string::npos);
}

TEST_CASE("slots of two sizes are an error of both ends that names the variable") {
  NEEDS_DEVICE();
  Two two({.slotBytes = 4096}, {.slotBytes = 8192});
  const PendingEndpoint first = two.transports[0]->beginConnect(1, two.transports[1]->address(), 0);
  const PendingEndpoint second = two.transports[1]->beginConnect(0, two.transports[0]->address(), 0);
  Status said[2];
  const Deadline deadline = Deadline::inMs(10'000);
  while (!deadline.passed() && (said[0].ok() || said[1].ok())) {
    if (said[0].ok()) said[0] = first->poll().status();
    if (said[1].ok()) said[1] = second->poll().status();
  }
  for (const Status& status : said) {
    CHECK(status.code() == tuttiInvalidUsage);
    CHECK(status.message().find("TUTTI_SLOT_BYTES") != std::string::npos);
  }
}

TEST_CASE("many endpoints share one completion queue, which grows") {
  NEEDS_DEVICE();
  Two two({.slots = 4, .slotBytes = 1024}, {.slots = 4, .slotBytes = 1024});
  std::vector<Pair> pairs;
  for (int lane = 0; lane < 64; ++lane) {
    Result<Pair> pair = connectBoth(two.transports, lane);
    REQUIRE(pair.status().message() == "");
    pairs.push_back(std::move(*pair));
  }
  const std::vector<std::byte> message(600, std::byte{5});
  std::vector<std::byte> out(600);
  for (int round = 0; round < 3; ++round) {
    for (Pair& pair : pairs) REQUIRE(*pair.first().send(message.data(), message.size(), callNumber(1)));
  }
  for (int round = 0; round < 3; ++round) {
    for (Pair& pair : pairs) {
      std::fill(out.begin(), out.end(), std::byte{0});
      const Result<bool> came = awaitValue(
          [&] {
            return pair.second().receive(out.data(), {600, callNumber(1)});
          },
          Deadline::inMs(10'000), "a message");
      REQUIRE(came.status().message() == "");
      CHECK(out == message);
    }
  }
}

// A look takes 16 completions at most from the queue; messages of this size are not found otherwise.
TEST_CASE("what a look at one endpoint finds for another ends the sleep that follows") {
  NEEDS_DEVICE();
  constexpr size_t kBytes = verbs::kMostCheckedBytes + 1000;
  Two two({.slots = 4, .slotBytes = 8192}, {.slots = 4, .slotBytes = 8192});
  std::vector<Pair> pairs;
  for (int lane = 0; lane < 5; ++lane) {
    Result<Pair> pair = connectBoth(two.transports, lane);
    REQUIRE(pair.ok());
    pairs.push_back(std::move(*pair));
  }
  std::vector<std::byte> out(kBytes);
  for (Pair& pair : pairs) {
    for (int i = 0; i < 4; ++i) REQUIRE(*pair.first().send(out.data(), out.size(), callNumber(1)));
    const Result<bool> there = awaitValue([&] { return Result<bool>(pair.second().pending().has_value()); },
                                          Deadline::inMs(10'000), "a message");
    REQUIRE(there.ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the other three
  }
  Endpoint& last = pairs.back().second();
  Sleeper& sleeper = *two.transports[1]->sleeper();
  sleeper.prepare();
  REQUIRE_FALSE(*last.receive(out.data(), {out.size(), callNumber(1)}));
  REQUIRE(two.transports[1]->progress());
  const Deadline late = Deadline::inMs(kSleepUs / 1000);
  sleeper.sleep(kSleepUs);
  CHECK_FALSE(late.passed());
  CHECK(*last.receive(out.data(), {out.size(), callNumber(1)}));
}

TEST_CASE("small messages to a rank that waits awake complete nothing there, until it sleeps") {
  NEEDS_DEVICE();
  const size_t bytes = GENERATE(size_t{1}, size_t{1024}, verbs::kMostCheckedBytes);
  CAPTURE(bytes);
  Two two({}, {});
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.ok());
  Endpoint &here = pair->first(), &there = pair->second();
  Transport& waits = *two.transports[1];
  Sleeper& sleeper = *waits.sleeper();
  std::vector<std::byte> out(bytes, std::byte{1}), in(bytes);
  uint32_t number = 0;
  const auto nothingYet = [&] { return !*there.receive(in.data(), {bytes, callNumber(number)}); };
  const auto arrives = [&](Endpoint& at) {
    return *awaitValue(
        [&] {
          return at.receive(in.data(), {bytes, callNumber(number)});
        },
        Deadline::inMs(10'000), "a message");
  };
  /// Whether something completes at the receiver when a message has come.
  const auto completes = [&] {
    std::fill(out.begin(), out.end(), static_cast<std::byte>(++number));
    while (waits.progress()) continue;
    REQUIRE(*here.send(out.data(), bytes, callNumber(number)));
    const Deadline soon = Deadline::inMs(10'000);
    while (!there.pending() && !soon.passed()) sched_yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // what completes does so after it is there
    const bool some = waits.progress();
    REQUIRE(arrives(there));
    CHECK(in == out);
    return some;
  };
  const auto answers = [&] {
    REQUIRE(*there.send(out.data(), bytes, callNumber(number)));
    REQUIRE(arrives(here));
  };
  CHECK(completes());
  for (int look = 0; look < 1000; ++look) REQUIRE(nothingYet());
  CHECK(completes());  // the sender does not know yet
  answers();
  for (int times = 0; times < 40; ++times) CHECK_FALSE(completes());  // more than there are slots
  sleeper.prepare();
  sleeper.cancel();
  for (const Deadline heard = Deadline::inMs(50); !heard.passed();) two.transports[0]->progress();
  CHECK(completes());
  answers();
  CHECK(completes());  // it has not waited awake since
  const Deadline late = Deadline::inMs(kSleepUs / 1000);
  sleeper.prepare();
  REQUIRE(nothingYet());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    (void)here.send(out.data(), bytes, callNumber(number));
  });
  sleeper.sleep(kSleepUs);
  other.join();
  CHECK_FALSE(late.passed());
  CHECK(arrives(there));
}

TEST_CASE("what shows that a small message is in its slot depends on every bit of it") {
  const std::vector<std::byte> payload(verbs::kMostCheckedBytes, std::byte{0x5a});
  verbs::Header header{.call = {1, 2}, .bytes = 3, .released = 4, .pieces = 5, .lent = 1, .number = 6};
  for (const size_t bytes : {0UL, 1UL, 8UL, 13UL, 63UL, 64UL, 217UL, payload.size()}) {
    CAPTURE(bytes);
    const uint64_t check = verbs::checkOf(header, payload.data(), bytes);
    std::vector<std::byte> copied(payload.size());
    CHECK(verbs::checkOfCopied(header, payload.data(), bytes, copied.data()) == check);
    CHECK(std::equal(copied.begin(), copied.begin() + static_cast<ptrdiff_t>(bytes), payload.begin()));
    CHECK(std::all_of(copied.begin() + static_cast<ptrdiff_t>(bytes), copied.end(),
                      [](std::byte b) { return b == std::byte{}; }));
    for (size_t bit = 0; bit < 8 * sizeof header; ++bit) {
      if (bit / 64 == offsetof(verbs::Header, check) / 8) continue;
      verbs::Header other = header;
      reinterpret_cast<uint8_t*>(&other)[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      CHECK(verbs::checkOf(other, payload.data(), bytes) != check);
    }
    std::vector<std::byte> other = payload;
    std::string unseen;
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      other[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      if (verbs::checkOf(header, other.data(), bytes) == check) unseen += cat(" ", bit);
      other[bit / 8] = payload[bit / 8];
    }
    CHECK(unseen == "");
  }
}

TEST_CASE("a message that is lent is done for its sender when it has been read, though no other follows") {
  NEEDS_DEVICE();
  Two two({.slotBytes = 32 << 10}, {.slotBytes = 32 << 10});
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.ok());
  for (const bool posted : {true, false}) {
    CAPTURE(posted);
    std::vector<std::byte> out(30'000, std::byte{7}), in(30'000);
    const auto keptOut = two.transports[0]->registerMemory({MemoryKind::Host, -1, out.data(), out.size()});
    const auto keptIn = two.transports[1]->registerMemory({MemoryKind::Host, -1, in.data(), in.size()});
    REQUIRE((keptOut.ok() && keptIn.ok()));
    const Expect expect{in.size(), callNumber(1)};
    Request coming = 0;
    if (posted) coming = *pair->second().postReceive(in.data(), expect);
    const Request going = *pair->first().postSend(out.data(), out.size(), callNumber(1));
    CHECK_FALSE(*pair->first().test(going));
    bool came = false, gone = false;
    const Result<bool> both = awaitValue(
        [&]() -> Result<bool> {
          if (!came) came = *(posted ? pair->second().test(coming) : pair->second().receive(in.data(), expect));
          if (!gone) gone = *pair->first().test(going);
          return came && gone;
        },
        Deadline::inMs(10'000), "both ends");
    CHECK(both.status().message() == "");
    CHECK(in == out);
  }
}

namespace {

/// A rank lends 30,000 bytes to another, which receives them in `in`.
struct Lending {
  Two two{{.slotBytes = 32 << 10}, {.slotBytes = 32 << 10}};
  std::vector<std::byte> out = std::vector<std::byte>(30'000, std::byte{7}), in = std::vector<std::byte>(30'000);
  Result<std::unique_ptr<MemoryRegistration>> keptOut = kept(0, out), keptIn = kept(1, in);
  Result<Pair> pair = connectBoth(two.transports, 0);

  Result<std::unique_ptr<MemoryRegistration>> kept(int rank, std::vector<std::byte>& memory) {
    return two.transports[rank]->registerMemory({MemoryKind::Host, -1, memory.data(), memory.size()});
  }
  Result<bool> receive(std::vector<std::byte>& dst) {
    return pair->second().receive(dst.data(), {dst.size(), callNumber(1)});
  }
  /// Whether it is in dst after a call that has not found it yet, and so before anybody could have copied it; false
  /// once a call has it.
  bool comesByItself(std::vector<std::byte>& dst) {
    REQUIRE(*pair->first().postSend(out.data(), out.size(), callNumber(1)) != 0);
    for (const Deadline late = Deadline::inMs(20'000); !*receive(dst);) {
      REQUIRE_FALSE(late.passed());
      two.transports[0]->progress();
      for (const Deadline soon = Deadline::inMs(200); !soon.passed(); sched_yield()) {
        if (dst == out) return true;
      }
    }
    return false;
  }
};

}  // namespace

TEST_CASE("what is lent is read straight to registered memory, also where nothing was posted for it") {
  NEEDS_DEVICE();
  Lending lending;
  REQUIRE((lending.pair.ok() && lending.keptOut.ok() && lending.keptIn.ok()));
  CHECK(lending.comesByItself(lending.in));
  CHECK(*lending.receive(lending.in));
  std::vector<std::byte> unregistered(lending.out.size());
  CHECK_FALSE(lending.comesByItself(unregistered));
  CHECK(unregistered == lending.out);
}

TEST_CASE("a message that is given up while it is read to its place is read no further") {
  NEEDS_DEVICE();
  Lending lending;
  REQUIRE((lending.pair.ok() && lending.keptOut.ok() && lending.keptIn.ok()));
  lending.pair->second().release();  // nothing to give up
  REQUIRE(lending.comesByItself(lending.in));
  lending.pair->second().release();
  CHECK(lending.receive(lending.in).status().message().find("have been cancelled") != std::string::npos);
}

TEST_CASE("what a peer lends and takes back fails its reader by name, and hangs nobody") {
  NEEDS_DEVICE();
  constexpr size_t kBytes = 30'000;
  Two two({.timeout = 8, .retries = 2, .slotBytes = 32 << 10}, {.timeout = 8, .retries = 2, .slotBytes = 32 << 10});
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.status().message() == "");
  std::vector<std::byte> out(kBytes), in(kBytes);
  auto kept = two.transports[0]->registerMemory({MemoryKind::Host, -1, out.data(), out.size()});
  REQUIRE(kept.ok());
  REQUIRE(*pair->first().postSend(out.data(), kBytes, callNumber(1)) != 0);
  for (int i = 0; i < 1000 && !pair->second().pending(); ++i) two.transports[0]->progress();
  pair->first().cancel();
  kept->reset();
  const Result<bool> came = awaitValue(
      [&] {
        return pair->second().receive(in.data(), {kBytes, callNumber(1)});
      },
      Deadline::inMs(20'000), "a message");
  CHECK(came.status().code() == tuttiRemoteError);
  CHECK(came.status().message().find("rank 0 over verbs (") != std::string::npos);
}
