// What is particular to tcp: its headers, addresses, stripes, and how its failures read.
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/loopback.hpp"
#include "tests/conformance/traffic.hpp"
#include "transport/tcp/endpoint.hpp"
#include "transport/tcp/transport.hpp"

using namespace tutti;
using namespace tutti::conformance;

TEST_CASE("a header is read back as it was written, and nothing else is read as one") {
  const tcp::Header header{4711, callNumber(3), 2, true};
  tcp::HeaderBytes bytes = tcp::encodeHeader(header);
  CHECK(*tcp::decodeHeader(bytes, 2) == header);
  CHECK(tcp::decodeHeader(bytes, 1).status().code() == tuttiRemoteError);  // spread over more than there are
  for (const size_t broken : {0u, 3u, 5u, 7u, 15u}) {  // magic, spread, row, the size's highest byte
    tcp::HeaderBytes other = bytes;
    other[broken] ^= std::byte{0xff};
    CAPTURE(broken);
    CHECK(tcp::decodeHeader(other, 2).status().code() == tuttiRemoteError);
  }
}

TEST_CASE("an address says the options, and is refused if it is not one") {
  const TcpOptions options{.nSockets = 3, .slotBytes = 9000};
  CHECK(decodeTcpAddress(encodeTcpAddress(options))->slotBytes == 9000);
  CHECK(decodeTcpAddress(encodeTcpAddress(options))->nSockets == 3);
  const std::string rest = " reconnect=1 window=65536 host=5";
  CHECK(decodeTcpAddress("tcp2 sockets=1 slot=1" + rest)->hostId == 5);
  for (const std::string bad : {"", "tcp2", "tcp2 sockets=0 slot=1", "tcp2 sockets=17 slot=1", "tcp2 sockets=1 slot=0",
                                "tcp2 sockets=1 slot=1 ", "tcp1 sockets=1 slot=1", "tcp2 sockets=-1 slot=1",
                                "tcp2 sockets=1 slot=99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(decodeTcpAddress(bad).status().code() == tuttiRemoteError);
    CHECK(decodeTcpAddress(bad + rest).status().code() == tuttiRemoteError);
  }
  CHECK(!decodeTcpAddress("tcp2 sockets=1 slot=1 reconnect=3 window=65536 host=5").ok());
  CHECK(!decodeTcpAddress("tcp2 sockets=1 slot=1" + rest + " ").ok());
}

TEST_CASE("ranks with different options are told which variable, which values and which ranks") {
  LoopbackStreams streams(AF_UNIX, 0);
  LoopbackStreams::Of view(streams, 0);
  const auto transport = TcpTransport::create(view, 0, {.nSockets = 2, .slotBytes = 1024});
  const auto connect = [&](const TcpOptions& theirs) {
    return awaitEndpoint(*(*transport), 3, encodeTcpAddress(theirs), 0, Deadline::inMs(1000)).status();
  };
  CHECK(connect({.nSockets = 4, .slotBytes = 1024}).code() == tuttiInvalidUsage);
  CHECK(connect({.nSockets = 4, .slotBytes = 1024}).message() ==
        "TUTTI_NSOCKETS is 2 on rank 0 and 4 on rank 3; it must be the same on all ranks");
  CHECK(connect({.nSockets = 2, .slotBytes = 2048}).message() ==
        "TUTTI_SLOT_BYTES is 1024 on rank 0 and 2048 on rank 3; it must be the same on all ranks");
  CHECK(connect({.nSockets = 2, .slotBytes = 1024}).ok());
}

TEST_CASE("the stripes of a message are its bytes, once each and in order") {
  for (const uint32_t spread : {1u, 2u, 3u, 16u}) {
    for (const size_t bytes : interestingSizes(5'000'000)) {
      CAPTURE(spread, bytes);
      const tcp::Stripes stripes(bytes, spread);
      REQUIRE(stripes.count >= 1);
      REQUIRE(stripes.count <= static_cast<int>(spread));
      size_t end = 0;
      for (int i = 0; i < stripes.count; ++i) {
        CHECK(stripes[i].offset == end);
        CHECK((stripes[i].bytes > 0 || bytes == 0));
        end += stripes[i].bytes;
      }
      CHECK(end == bytes);
      CHECK((stripes.count == 1 || bytes >= 2 * tcp::kLeastStripeBytes));
    }
  }
}

TEST_CASE("what is no message, and a peer that ends inside of one, are errors that name the peer or the bytes") {
  const auto receiveFrom = [](std::span<const std::byte> bytes, bool close) {
    auto both = loopbackPair(AF_UNIX, 0);
    std::vector<Fd> fds;
    fds.push_back(std::move(both->first));
    tcp::TcpEndpoint endpoint(5, 0, std::move(fds), 1024, nullptr);
    REQUIRE(::send(both->second.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    if (close) both->second.reset();
    std::vector<std::byte> out(100);
    Result<bool> last = false;
    for (int i = 0; i < 5 && last.ok(); ++i) last = endpoint.receive(out.data(), {100, callNumber(1)});
    return last.status();
  };
  const std::vector<std::byte> noise(200, std::byte{7});
  CHECK(receiveFrom(noise, false).code() == tuttiRemoteError);
  CHECK(receiveFrom(noise, false).message().find("rank 5") != std::string::npos);
  const tcp::HeaderBytes header = tcp::encodeHeader({100, callNumber(1), 1});
  const auto head = std::as_bytes(std::span(header));
  CHECK(receiveFrom(head, false).ok());
  CHECK(receiveFrom(head, true).code() == tuttiRemoteError);
  CHECK(receiveFrom(head.first(10), true).message().find("rank 5") != std::string::npos);
}

TEST_CASE("messages that come in one read are told apart, and each is known before it is asked for") {
  auto both = loopbackPair(AF_UNIX, 0);
  std::vector<Fd> fds;
  fds.push_back(std::move(both->first));
  tcp::TcpEndpoint endpoint(5, 0, std::move(fds), 100'000, nullptr);
  // All at once, so that the first read takes some whole messages, a part of a header or of a payload, and no more.
  constexpr size_t kAhead = tcp::kMostAheadBytes;
  for (const std::vector<size_t>& sizes :
       std::vector<std::vector<size_t>>{{8, 8, 0, 100},
                                        {kAhead, kAhead, kAhead, kAhead, kAhead},
                                        {kAhead, kAhead, kAhead, kAhead - 144, 64, kAhead},
                                        {8, 80'000, 8},
                                        {kAhead, kAhead, kAhead, 50'000, 0, 1}}) {
    for (const Take take : {Take::Receive, Take::Peek}) {
      std::vector<std::byte> wire;
      for (uint32_t i = 0; i < sizes.size(); ++i) {
        const tcp::HeaderBytes header = tcp::encodeHeader({sizes[i], callNumber(i), 1});
        wire.insert(wire.end(), header.begin(), header.end());
        wire.resize(wire.size() + sizes[i]);
        fillPattern(std::span(wire).last(sizes[i]), 9, i);
      }
      REQUIRE(::send(both->second.get(), wire.data(), wire.size(), 0) == static_cast<ssize_t>(wire.size()));
      for (uint32_t i = 0; i < sizes.size(); ++i) {
        CAPTURE(sizes, i);
        std::vector<std::byte> got(sizes[i]);
        std::vector<std::byte> want(sizes[i]);
        fillPattern(want, 9, i);
        // The first read leaves the rest of its bytes to later messages; a header of which only a part has been read is
        // unknown until the rest of it is.
        const std::optional<Fingerprint> pending = endpoint.pending();
        CHECK((!pending || *pending == callNumber(i)));
        if (i == 0 || (i == 1 && sizes[1] == 8)) CHECK(pending.has_value());
        for (bool done = false; !done;) {
          const Expect expect{sizes[i], callNumber(i)};
          if (take == Take::Receive) {
            const Result<bool> came = endpoint.receive(got.data(), expect);
            REQUIRE(came.ok());
            done = *came;
          } else {
            const Result<const std::byte*> message = endpoint.peek(expect);
            REQUIRE(message.ok());
            done = *message != nullptr;
            if (done) got.assign(*message, *message + sizes[i]);
            if (done) endpoint.release();
          }
        }
        CHECK(got == want);
      }
      CHECK(!endpoint.pending());
    }
  }
}

namespace {

/// Lanes of one rank over local sockets with tiny buffers, and their peers' ends.
struct Lanes {
  static constexpr size_t kSlotBytes = 60'000;  // more than such a socket holds
  std::shared_ptr<FdSleeper> sleeper = *FdSleeper::create();
  std::vector<std::unique_ptr<tcp::TcpEndpoint>> mine, theirs;

  explicit Lanes(int lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      auto both = std::move(*loopbackPair(AF_UNIX, 1));
      mine.push_back(endpoint(lane, std::move(both.first), sleeper));
      theirs.push_back(endpoint(lane, std::move(both.second), nullptr));
    }
  }
  static std::unique_ptr<tcp::TcpEndpoint> endpoint(int lane, Fd fd, std::shared_ptr<FdSleeper> sleeper) {
    std::vector<Fd> fds;
    fds.push_back(std::move(fd));
    return std::make_unique<tcp::TcpEndpoint>(1, lane, std::move(fds), kSlotBytes, std::move(sleeper));
  }
  std::vector<size_t> due() const {
    std::vector<size_t> lanes;
    for (size_t lane = 0; lane < mine.size(); ++lane) {
      if (mine[lane]->due()) lanes.push_back(lane);
    }
    return lanes;
  }
  /// Whether the peer's message goes while this rank asks for nothing.
  bool sendUnasked(size_t lane, const std::vector<std::byte>& message, uint32_t number) {
    for (const Deadline deadline = Deadline::inMs(10'000); !deadline.passed();) {
      const Result<bool> gone = theirs[lane]->send(message.data(), message.size(), callNumber(number));
      REQUIRE(gone.ok());
      if (*gone) return true;
      (void)sleeper->progress();
    }
    return false;
  }
  void settle() {
    while (sleeper->progress()) {
    }
  }
};

}  // namespace

TEST_CASE("progress() is about endpoints with something to move, and finds those that the system tells of") {
  Lanes lanes(4);
  lanes.settle();
  CHECK(lanes.due().empty());
  const std::vector<std::byte> message(Lanes::kSlotBytes, std::byte{2});
  REQUIRE(lanes.sendUnasked(2, message, 1));
  lanes.settle();
  CHECK(lanes.due().empty());
  // The next one can come when the first is taken, of which the system says nothing.
  while (*lanes.theirs[2]->send(message.data(), message.size(), callNumber(2)) == false && lanes.sleeper->progress()) {
  }
  std::vector<std::byte> got(Lanes::kSlotBytes);
  REQUIRE(*lanes.mine[2]->receive(got.data(), {got.size(), callNumber(1)}));
  CHECK(lanes.due() == std::vector<size_t>{2});
  CHECK(lanes.sendUnasked(2, message, 2));
}

TEST_CASE("an endpoint is due as long as something of its own is left to send") {
  Lanes lanes(3);
  lanes.settle();
  const std::vector<std::byte> message(Lanes::kSlotBytes, std::byte{7});
  REQUIRE(lanes.mine[1]->postSend(message.data(), message.size(), callNumber(1)).ok());
  lanes.settle();
  CHECK(lanes.due() == std::vector<size_t>{1});
  std::vector<std::byte> got(Lanes::kSlotBytes);
  while (!*lanes.theirs[1]->receive(got.data(), {got.size(), callNumber(1)})) (void)lanes.sleeper->progress();
  CHECK(got == message);
  lanes.settle();
  CHECK(lanes.due().empty());
  (void)lanes.mine[0]->peek({8, callNumber(1)});
  lanes.mine[0].reset();  // while it is due
  CHECK_FALSE(lanes.sleeper->progress());
}

TEST_CASE("what progress() has seen come does not let the rank sleep") {
  Lanes lanes(1);
  constexpr int kSleepUs = 20'000'000;  // a wake-up that is missed shows as a test that takes this long
  lanes.sleeper->prepare();
  const std::byte byte{1};
  REQUIRE(*lanes.theirs[0]->send(&byte, 1, callNumber(1)));
  (void)lanes.sleeper->progress();
  const int64_t begin = nowNs();
  lanes.sleeper->sleep(kSleepUs);
  CHECK(nowNs() - begin < kSleepUs * int64_t{1000});
}

TEST_CASE("a buffered message that is larger than asked for is refused and writes nothing") {
  auto both = loopbackPair(AF_UNIX, 0);
  std::vector<Fd> fds;
  fds.push_back(std::move(both->first));
  tcp::TcpEndpoint endpoint(5, 0, std::move(fds), 1024, nullptr);
  std::vector<std::byte> wire(tcp::kHeaderBytes + 500, std::byte{1});
  const tcp::HeaderBytes header = tcp::encodeHeader({500, callNumber(1), 1});
  std::copy(header.begin(), header.end(), wire.begin());
  REQUIRE(::send(both->second.get(), wire.data(), wire.size(), 0) == static_cast<ssize_t>(wire.size()));
  std::vector<std::byte> out(500, std::byte{2});
  CHECK(endpoint.receive(out.data(), {40, callNumber(1)}).status().code() == tuttiInvalidUsage);
  CHECK(out == std::vector<std::byte>(500, std::byte{2}));
}

TEST_CASE("pending() beside the receiver never names a message that is not the next one") {
  auto both = loopbackPair(AF_UNIX, 0);
  const auto endpointOf = [](Fd fd, int peer) {
    std::vector<Fd> fds;
    fds.push_back(std::move(fd));
    return std::make_unique<tcp::TcpEndpoint>(peer, 0, std::move(fds), 1024, nullptr);
  };
  const auto sender = endpointOf(std::move(both->first), 1);
  const auto receiver = endpointOf(std::move(both->second), 0);
  constexpr uint32_t kMessages = 20'000;
  std::vector<Fingerprint> calls;
  for (uint32_t i = 0; i < kMessages; ++i) calls.push_back(callNumber(i));
  std::atomic<uint32_t> taken{0};
  std::atomic<bool> failed{false};
  std::atomic<bool> wrong{false};
  std::thread sends([&] {
    for (uint32_t i = 0; i < kMessages && !failed;) {
      const Result<bool> sent = sender->send(nullptr, 0, calls[i]);
      if (!sent.ok()) failed = true;
      if (sent.ok() && *sent) ++i;
      if (sent.ok() && !*sent) sched_yield();
    }
  });
  std::thread asks([&] {
    while (taken < kMessages && !failed) {
      const uint32_t before = taken;
      const std::optional<Fingerprint> call = receiver->pending();
      const uint32_t after = std::min(taken + 1, kMessages - 1);  // one may be whole and not yet counted
      if (call && std::find(calls.begin() + before, calls.begin() + after + 1, *call) == calls.begin() + after + 1) {
        wrong = true;
      }
    }
  });
  while (taken < kMessages && !failed) {
    if (taken % 3 == 0 && !receiver->progress().ok()) failed = true;
    const Result<bool> came = receiver->receive(nullptr, {0, calls[taken]});
    if (!came.ok()) failed = true;
    if (came.ok() && *came) ++taken;
    if (came.ok() && !*came) sched_yield();
  }
  sends.join();
  asks.join();
  CHECK(!failed);
  CHECK(!wrong);
}
