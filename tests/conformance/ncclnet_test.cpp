// What is particular to ncclnet: how a plugin and its device are found, what is said where they are not, and how
// failures read.  The plugins are of tests/support/net_plugin, which complain of callers that break NCCL's rules.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/each.hpp"
#include "tests/conformance/loopback.hpp"
#include "tests/support/net_plugin/net_plugin.hpp"
#include "tests/support/variable.hpp"
#include "transport/ncclnet/entry.hpp"
#include "transport/ncclnet/transport.hpp"
#include "transport/ncclnet/wire.hpp"

using namespace tutti;
using namespace tutti::conformance;
using tutti::test::netPluginCount;
using tutti::test::netPluginPath;
using tutti::test::Variable;

namespace {

constexpr PeerInfo kHere{.rank = 0, .hostId = 1}, kBeside{.rank = 1, .hostId = 1}, kThere{.rank = 2, .hostId = 2};
constexpr int kVersions[] = {8, 9, 10, 11, 12};
constexpr size_t kSmallSlot = 4096;

ncclnet::Options with(std::string plugins, std::string device = "", size_t slotBytes = kSmallSlot) {
  return {.plugins = std::move(plugins), .device = std::move(device), .slots = 4, .slotBytes = slotBytes, .closeMs = 5};
}

struct Two {
  LoopbackStreams streams{AF_INET, 0};
  LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<Transport> transports[2];
  explicit Two(const ncclnet::Options& options) : Two(options, options) {}
  Two(const ncclnet::Options& a, const ncclnet::Options& b) {
    transports[0] = std::make_unique<NcclnetTransport>(views[0], 0, a);
    transports[1] = std::make_unique<NcclnetTransport>(views[1], 1, b);
  }
};

/// Why such a rank reaches nobody; "": it does.
std::string lack(const ncclnet::Options& options) {
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of view(streams, 0);
  NcclnetTransport transport(view, 0, options);
  const Result<LinkProfile> link = transport.reach(kHere, kBeside);
  REQUIRE(link.ok() != transport.address().empty());
  if (link.ok()) return "";
  CHECK(link.status().code() == tuttiInvalidUsage);
  CHECK(transport.reach(kBeside, kThere).value().key == "ncclnet-remote");
  CHECK(transport.beginConnect(1, "ncclnet2 x", 0)->poll().status().message() == link.status().message());
  return link.status().message();
}

void checkSays(const std::string& text, std::initializer_list<const char*> words) {
  CAPTURE(text);
  for (const char* word : words) CHECK(text.find(word) != std::string::npos);
}

/// What the two ends of an endpoint that does not come up say.
std::vector<Status> openBoth(Two& two) {
  const PendingEndpoint pending[] = {two.transports[0]->beginConnect(1, two.transports[1]->address(), 0),
                                     two.transports[1]->beginConnect(0, two.transports[0]->address(), 0)};
  std::vector<Status> said(2);
  const Deadline deadline = Deadline::inMs(10'000);
  while (!deadline.passed() && (said[0].ok() || said[1].ok())) {
    for (const size_t side : {0u, 1u}) {
      if (said[side].ok()) said[side] = pending[side]->poll().status();
    }
  }
  return said;
}

void checkRulesKept(int version) {
  CAPTURE(version);
  CHECK(netPluginCount(version, "Complaints") == 0);
  CHECK(netPluginCount(version, "Alive") == 0);
}

}  // namespace

TEST_CASE("nothing is loaded that no variable names") {
  checkSays(lack(with("")), {"TUTTI_NET_PLUGIN names no plugin"});
  checkSays(lack(with("none")), {"no plugin is wanted"});
  checkSays(lack(with("none," + netPluginPath(11))), {"no plugin is wanted"});
}

TEST_CASE("a plugin of every version is found and joins ranks, of a host and of two") {
  for (const int version : kVersions) {
    CAPTURE(version);
    LoopbackStreams streams(AF_INET, 0);
    LoopbackStreams::Of view(streams, 0);
    const NcclnetTransport transport(view, 0, with(netPluginPath(version)));
    CHECK(transport.address() == "ncclnet2 Sockets for tests");
    CHECK(transport.reach(kHere, kBeside).value().key == "ncclnet-local");
    CHECK(transport.reach(kHere, kThere).value().key == "ncclnet-remote");
    CHECK_FALSE(transport.reach(kHere, kHere).ok());
  }
}

TEST_CASE("what cannot be loaded says what was looked for and where") {
  checkSays(lack(with("nosuch")),
            {"TUTTI_NET_PLUGIN: nosuch: ", "libnccl-net-nosuch.so", "cannot open shared object", "LD_LIBRARY_PATH"});
  checkSays(lack(with("/nonexistent/plugin.so")), {"/nonexistent/plugin.so: cannot be loaded", "No such file"});
  checkSays(lack(with("libm.so.6")),
            {"libm.so.6: is loaded, but exports none of ncclNetPlugin_v12, ", "ncclNetPlugin_v8; take a release"});
}

TEST_CASE("of a list the first with a device counts, and all that were not taken are named") {
  CHECK(lack(with("nosuch,libm.so.6,," + netPluginPath(9))) == "");
  checkSays(lack(with("nosuch,libm.so.6")), {"nosuch: ", "; libm.so.6: "});
  checkSays(lack(with("nosuch,none," + netPluginPath(9))), {"nosuch: ", "; none: "});
}

TEST_CASE("a plugin that fails says by which call, and what it had to say") {
  struct Case {
    const char* fault;
    std::vector<const char*> says;
  };
  const Case cases[] = {{"init", {"Sockets for tests v11: init gave ncclSystemError (the cable is broken)"}},
                        {"devices", {"Sockets for tests v11: devices gave ncclSystemError"}},
                        {"none", {"Sockets for tests v11 finds no device"}},
                        {"many", {"says that it has 2000000000 devices"}},
                        {"gpu", {"has no device for host memory; it has 0 gpu0 (not for memory of the host)"}},
                        {"short", {"1 net0 (for messages of 1000 bytes; TUTTI_SLOT_BYTES needs 4136)"}}};
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    const Variable fault("NET_PLUGIN_FAULT", c.fault);
    const std::string text = lack(with(netPluginPath(11)));
    CAPTURE(text);
    for (const char* words : c.says) CHECK(text.find(words) != std::string::npos);
  }
  checkRulesKept(11);
}

TEST_CASE("a device is chosen by name or number, and what is not there is named beside what is") {
  CHECK(lack(with(netPluginPath(11), "net1")) == "");
  CHECK(lack(with(netPluginPath(11), "2")) == "");
  checkSays(lack(with(netPluginPath(11), "net7")),
            {"no device that TUTTI_NET_PLUGIN_DEVICE=net7 allows", "0 gpu0", "1 net0, 2 net1"});
  checkSays(lack(with(netPluginPath(11), "0")), {"TUTTI_NET_PLUGIN_DEVICE=0", "gpu0 (not for memory of the host)"});
}

TEST_CASE("an endpoint that does not come up says by which call, on both ends, and hangs nobody") {
  struct Case {
    const char* fault;
    const char* says;
  };
  for (const Case& c : {Case{"listen", "listen gave ncclSystemError (no more ports)"},
                        Case{"long", "listen wrote a handle of more than 128 bytes"},
                        Case{"connect", "connect gave ncclRemoteError (nobody answers)"},
                        Case{"accept", "accept gave ncclSystemError"}, Case{"regMr", "cannot register "}}) {
    CAPTURE(c.fault);
    Two two(with(netPluginPath(11)));
    const Variable fault("NET_PLUGIN_FAULT", c.fault);
    for (const Status& status : openBoth(two)) {
      CHECK_FALSE(status.ok());
      checkSays(status.message(), {c.says, "Sockets for tests v11, device net0"});
    }
  }
  CHECK(netPluginCount(11, "Complaints") == 0);
}

TEST_CASE("slots of two sizes and plugins of two kinds are errors that name the variable") {
  Two sizes(with(netPluginPath(11)), with(netPluginPath(11), "", 2 * kSmallSlot));
  for (const Status& status : openBoth(sizes)) {
    CHECK(status.code() == tuttiInvalidUsage);
    CHECK(status.message().find("TUTTI_SLOT_BYTES is ") != std::string::npos);
  }
  const PendingEndpoint other = sizes.transports[0]->beginConnect(1, "ncclnet2 AWS Libfabric", 0);
  checkSays(other->poll().status().message(),
            {"TUTTI_NET_PLUGIN is Sockets for tests here and AWS Libfabric on rank 1"});
  const PendingEndpoint none = sizes.transports[0]->beginConnect(1, "", 0);
  CHECK(none->poll().status().code() == tuttiRemoteError);
}

TEST_CASE("plugins of two versions of the interface understand each other") {
  Two two(with(netPluginPath(8)), with(netPluginPath(12)));
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.status().message() == "");
  const std::vector<std::byte> message(kSmallSlot, std::byte{5});
  std::vector<std::byte> out(kSmallSlot);
  bool sent = false;
  const Result<bool> came = awaitValue(
      [&]() -> Result<bool> {
        if (!sent) {
          TUTTI_ASSIGN(sent, pair->first().send(message.data(), message.size(), callNumber(1)));
        }
        return pair->second().receive(out.data(), {out.size(), callNumber(1)});
      },
      Deadline::inMs(10'000), "a message");
  REQUIRE(came.status().message() == "");
  CHECK(out == message);
}

TEST_CASE("messages of any number break no rule of the plugin's, and leave nothing behind") {
  for (const int version : kVersions) {
    CAPTURE(version);
    {
      ncclnet::Options options = with(netPluginPath(version));
      options.slots = 64;  // more than plugins take
      Two two(options);
      Result<Pair> pair = connectBoth(two.transports, 0);
      REQUIRE(pair.status().message() == "");
      const std::vector<std::byte> message(300, std::byte{5});
      std::vector<std::byte> out(300);
      uint32_t posted = 0, received = 0;
      const Result<bool> all = awaitValue(
          [&]() -> Result<bool> {
            for (;; ++posted) {
              TUTTI_ASSIGN(const Request request, pair->first().postSend(message.data(), 300, callNumber(posted)));
              if (request == 0) break;
            }
            for (;; ++received) {
              TUTTI_ASSIGN(const bool came, pair->second().receive(out.data(), {300, callNumber(received)}));
              if (!came) break;
            }
            return received >= 200;
          },
          Deadline::inMs(20'000), "messages");
      CHECK(all.status().message() == "");
    }
    checkRulesKept(version);
  }
}

TEST_CASE("a call that fails is named with the rank, the plugin, the device and its reason") {
  for (const char* const name : {"isend", "test"}) {
    CAPTURE(name);
    Two two(with(netPluginPath(11)));
    Result<Pair> pair = connectBoth(two.transports, 0);
    REQUIRE(pair.status().message() == "");
    const Variable fault("NET_PLUGIN_FAULT", name);
    const std::byte token{};
    const Result<bool> sent =
        awaitValue([&] { return pair->first().send(&token, 1, callNumber(1)); }, Deadline::inMs(10'000), "an error");
    CHECK(sent.status().code() == tuttiRemoteError);
    checkSays(sent.status().message(),
              {"rank 1 over ncclnet (plugin Sockets for tests v11, device net0): ", "isend gave ncclSystemError"});
  }
  checkRulesKept(11);
}

TEST_CASE("what is cancelled is over for both ends") {
  Two two(with(netPluginPath(11)));
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.status().message() == "");
  std::vector<std::byte> out(100);
  REQUIRE(*pair->first().postReceive(out.data(), {100, callNumber(1)}) != 0);
  pair->first().cancel();
  CHECK_FALSE(pair->first().send(out.data(), 1, callNumber(1)).ok());
  const Result<bool> came = awaitValue(
      [&] {
        return pair->second().receive(out.data(), {100, callNumber(1)});
      },
      Deadline::inMs(10'000), "an error");
  CHECK(came.status().code() == tuttiRemoteError);
  checkSays(came.status().message(), {"rank 0 over ncclnet (", " has closed its end"});
}

TEST_CASE("ends that close at about the same time leave nothing under way, whatever was read") {
  for (const int version : {8, 11}) {
    for (const uint32_t unread : {0u, 3u}) {
      CAPTURE(version, unread);
      const int torn = netPluginCount(version, "Torn");
      ncclnet::Options options = with(netPluginPath(version));
      options.closeMs = 20'000;  // a farewell that is missing shows as a test that takes this long
      Two two(options);
      Result<Pair> pair = connectBoth(two.transports, 0);
      REQUIRE(pair.status().message() == "");
      const std::vector<std::byte> message(300, std::byte{5});
      for (uint32_t number = 0; number < unread; ++number)
        REQUIRE(*pair->first().postSend(message.data(), 300, callNumber(number)) != 0);
      std::thread other([&] { pair->b.reset(); });
      pair->a.reset();
      other.join();
      CHECK(netPluginCount(version, "Torn") == torn);
    }
  }
}

TEST_CASE("an end that lives says farewell to one that closes, and still reads all that has been sent") {
  const int torn = netPluginCount(11, "Torn");
  ncclnet::Options options = with(netPluginPath(11));
  options.closeMs = 20'000;
  for (const uint32_t messages : {0u, 1u, 15u}) {  // the last are more than there are slots
    CAPTURE(messages);
    Two two(options);
    Result<Pair> pair = connectBoth(two.transports, 0);
    REQUIRE(pair.status().message() == "");
    std::vector<std::byte> out(300);
    for (uint32_t number = 0; number < messages; ++number)
      REQUIRE(*awaitValue([&] { return pair->first().send(out.data(), 300, callNumber(number)); },
                          Deadline::inMs(10'000), "a message to leave"));
    std::atomic<bool> closed{false};
    std::thread other([&] {
      pair->a.reset();
      closed = true;
    });
    // Time to hear of the end before anything is read.
    for (const Deadline heard = Deadline::inMs(50); !heard.passed();) two.transports[1]->progress();
    std::string complaint;
    const auto next = [&](uint32_t number) {
      return awaitValue(
          [&] {
            return pair->b->receive(out.data(), {300, callNumber(number)});
          },
          Deadline::inMs(10'000), "a message");
    };
    for (uint32_t number = 0; number < messages && complaint.empty(); ++number)
      complaint = next(number).status().message();
    const std::string end = next(messages).status().message();
    while (!closed) two.transports[1]->progress();
    other.join();
    CHECK(complaint == "");
    CHECK(end.ends_with(" has closed its end"));
    pair->b.reset();
    CHECK(netPluginCount(11, "Torn") == torn);
  }
}

TEST_CASE("what a peer or its plugin says is judged before it counts") {
  using ncclnet::Incoming;
  constexpr size_t kHead = ncclnet::kHeaderBytes;
  struct Row {
    uint64_t bytes, number;
    size_t came;
    Incoming is;
  };
  const Row rows[] = {{16, 4, kHead + 16, Incoming::Next},
                      {0, 0, kHead, Incoming::Farewell},
                      {16, 5, kHead + 16, Incoming::Odd},               // one is missing
                      {16, 3, kHead + 16, Incoming::Odd},               // it has come before
                      {17, 4, kHead + 16, Incoming::Odd},               // it is shorter than it says
                      {4097, 4, kHead + 4097, Incoming::Odd},           // no slot has room for it
                      {16, 4, kHead - 1, Incoming::Odd},                // not even a header
                      {SIZE_MAX - kHead, 4, SIZE_MAX, Incoming::Odd}};  // a plugin's length below zero
  for (const Row& row : rows) {
    CAPTURE(row.bytes, row.number, row.came);
    const ncclnet::Header header{.bytes = row.bytes, .call = {}, .number = row.number};
    CHECK(ncclnet::judge(header, row.came, 4096, 3, false) == row.is);
  }
  const auto apart = [](uint64_t bytes, uint64_t isApart, size_t came, bool mayBe) {
    const ncclnet::Header header{.bytes = bytes, .call = {}, .number = 4, .apart = isApart};
    return ncclnet::judge(header, came, 4096, 3, mayBe);
  };
  CHECK(apart(16, 1, kHead, true) == Incoming::Next);
  CHECK(apart(0, 0, kHead, true) == Incoming::Next);
  CHECK(apart(16, 0, kHead + 16, true) == Incoming::Odd);  // it should have come apart
  CHECK(apart(16, 1, kHead, false) == Incoming::Odd);      // nobody takes it apart
  CHECK(apart(4097, 1, kHead, true) == Incoming::Odd);     // no slot has room for it
  CHECK(apart(16, 1, kHead + 16, true) == Incoming::Odd);  // it has come twice
  CHECK(apart(16, 2, kHead, true) == Incoming::Odd);       // that is neither
  CHECK(ncclnet::canBe({.messages = 7, .receives = 3 + ncclnet::kMostRequests}, 3));
  CHECK_FALSE(ncclnet::canBe({.messages = 7, .receives = 4 + ncclnet::kMostRequests}, 3));
  CHECK_FALSE(ncclnet::canBe({.messages = 0, .receives = UINT64_MAX}, 3));
}
