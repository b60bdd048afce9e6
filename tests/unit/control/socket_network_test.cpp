// Two networks over real sockets, each with a machine that only takes notes.  One thread drives both.
#include <poll.h>
#include <sys/socket.h>
#include <catch2/catch.hpp>

#include <functional>

#include "src/base/clock.hpp"
#include "src/control/session/socket_network.hpp"

using namespace tutti;

namespace {

struct Notes : Machine {
  std::vector<LinkId> accepted, connected;
  std::vector<std::string> messages, closed;
  size_t limit = kMaxMessageBytes;
  std::function<void(LinkId, std::string_view)> reaction;

  void onAccepted(LinkId link) override { accepted.push_back(link); }
  void onConnected(LinkId link) override { connected.push_back(link); }
  void onMessage(LinkId link, std::string_view message) override {
    messages.emplace_back(message);
    if (reaction) reaction(link, message);
  }
  void onClosed(LinkId, const Status& why) override { closed.push_back(why.message()); }
  int64_t nextTimerNs() const override { return kNoTimer; }
  void onTimer() override {}
  size_t messageLimit(LinkId) const override { return limit; }
};

struct Node {
  std::unique_ptr<Reactor> reactor = *Reactor::create();
  Notes notes;
  SocketNetwork network{*reactor, 30'000, [] {}};

  Node() { network.setMachine(&notes); }
  ControlAddress listen(const char* address) {
    SocketAddress any = *parseAddress(address);
    any.setPort(0);
    return network.listen(any)->text();
  }
  void step() {
    reactor->dispatch(reactor->wait(nowNs() + 1'000'000));
    network.onTimer();
    network.deliver();
  }
};

/// Drive the nodes until it is so, for five seconds at most.
bool soon(std::initializer_list<Node*> nodes, const std::function<bool()>& done) {
  for (const Deadline deadline = Deadline::inMs(5000); !deadline.passed();) {
    if (done()) return true;
    for (Node* node : nodes) node->step();
  }
  return done();
}

}  // namespace

TEST_CASE("messages cross a link in order, over IPv4 and IPv6") {
  const char* address = GENERATE("127.0.0.1:1", "[::1]:1");
  CAPTURE(address);
  Node a, b;
  const ControlAddress controlAddress = b.listen(address);
  b.notes.reaction = [&](LinkId link, std::string_view message) { b.network.send(link, message); };
  const LinkId link = a.network.dial(controlAddress);
  a.network.send(link, "early");  // before the dial is done
  REQUIRE(soon({&a, &b}, [&] { return a.notes.messages.size() == 1; }));
  const std::string large(3 << 20, 'x');
  a.network.send(link, "small");
  a.network.send(link, large);
  REQUIRE(soon({&a, &b}, [&] { return a.notes.messages.size() == 3; }));
  CHECK(a.notes.messages[0] == "early");
  CHECK(a.notes.messages[1] == "small");
  CHECK((a.notes.messages[2] == large));
}

TEST_CASE("what was sent before a close still arrives, then the end") {
  Node a, b;
  const ControlAddress controlAddress = b.listen("127.0.0.1:1");
  const LinkId link = a.network.dial(controlAddress);
  REQUIRE(soon({&a, &b}, [&] { return a.notes.connected.size() == 1 && b.notes.accepted.size() == 1; }));
  b.network.send(b.notes.accepted[0], "unread by a");
  for (int i = 0; i < 2; ++i) a.network.send(link, "short");
  a.network.send(link, std::string(8 << 20, 'y'));
  a.network.close(link);
  CHECK(a.network.flushing());
  REQUIRE(soon({&a, &b}, [&] { return b.notes.closed.size() == 1; }));
  CHECK(b.notes.messages.size() == 3);
  CHECK(b.notes.closed[0] == "connection closed by the peer");
  CHECK(soon({&a, &b}, [&] { return !a.network.flushing(); }));
  CHECK(a.notes.closed.empty());
}

TEST_CASE("a dial goes through the addresses until one answers") {
  Node a, b;
  const ControlAddress good = b.listen("127.0.0.1:1");
  Node gone;
  const ControlAddress bad = gone.listen("127.0.0.1:1");
  gone.network.stopListening();
  a.network.dial(bad + "," + good);
  CHECK(soon({&a, &b}, [&] { return a.notes.connected.size() == 1; }));
  a.network.dial(bad + "," + bad);
  CHECK(soon({&a, &b}, [&] { return a.notes.closed.size() == 1; }));
  CHECK(a.notes.closed.at(0) == "nobody listens at " + bad + ": Connection refused; " + bad + ": Connection refused");
  a.network.dial("nonsense");
  CHECK(a.notes.closed.size() == 1);  // never from within dial
  CHECK(soon({&a, &b}, [&] { return a.notes.closed.size() == 2; }));
}

TEST_CASE("a stream that is handed over loses no byte behind its last message") {
  Node a, b;
  const ControlAddress controlAddress = b.listen("127.0.0.1:1");
  b.notes.reaction = [&](LinkId link, std::string_view message) {
    if (message == "over") b.network.handOver(link, "b", {});
  };
  const LinkId link = a.network.dial(controlAddress);
  REQUIRE(soon({&a, &b}, [&] { return a.notes.connected.size() == 1; }));
  a.network.send(link, "before");
  a.network.send(link, "over");
  a.network.handOver(link, "a", {{1}, {2}});
  const SocketNetwork::Stream taken = a.network.takeStream("a");
  const Fd& raw = taken.fd;
  REQUIRE(raw.valid());
  CHECK(taken.keys.send == Secret{1});
  CHECK(taken.keys.receive == Secret{2});
  CHECK_FALSE(a.network.takeStream("a").fd.valid());
  REQUIRE(::send(raw.get(), "raw bytes", 9, MSG_NOSIGNAL) == 9);  // in the same segment as the messages, most likely
  Fd stream;
  REQUIRE(soon({&a, &b}, [&] { return (stream = b.network.takeStream("b").fd).valid(); }));
  pollfd p{stream.get(), POLLIN, 0};
  REQUIRE(::poll(&p, 1, 5000) == 1);
  char got[32];
  CHECK(std::string(got, static_cast<size_t>(::recv(stream.get(), got, sizeof got, 0))) == "raw bytes");
  CHECK(b.notes.messages == std::vector<std::string>{"before", "over"});
  CHECK(a.notes.closed.empty());
}

TEST_CASE("a stranger who announces too much is cut off") {
  Node b;
  b.notes.limit = kMaxStrangerBytes;
  const SocketAddress address = *parseAddress(b.listen("127.0.0.1:1"));
  const Fd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(stranger.get(), address.raw(), address.bytes) == 0);
  REQUIRE(::send(stranger.get(), "GET / HTTP/1.1", 14, MSG_NOSIGNAL) == 14);
  REQUIRE(soon({&b}, [&] { return b.notes.closed.size() == 1; }));
  CHECK(b.notes.closed[0] == "what came is no message of this version of Tutti, or was damaged on its way");
}
