// What is particular to tcp: its headers, addresses, pieces, and how its failures read.
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
  const tcp::Header header{tcp::kLeastPieceBytes * 3, callNumber(3), 2, true, 40'000, 2};
  tcp::HeaderBytes bytes = tcp::encodeHeader(header);
  CHECK(*tcp::decodeHeader(bytes, 2) == header);
  CHECK(tcp::decodeHeader(bytes, 1).status().code() == tuttiRemoteError);  // spread over more than there are
  tcp::Header several = header;
  several.paths = true;
  CHECK(*tcp::decodeHeader(tcp::encodeHeader(several), 2) == several);
  for (const size_t broken : {0u, 3u, 4u, 5u, 12u, 15u}) {  // magic, spread, bits, a piece that it does not have
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
  CHECK(decodeTcpAddress(encodeTcpAddress({.nPaths = 2}))->nPaths == 2);
  const std::string rest = " reconnect=1 window=65536 host=5 paths=1 seal=0";
  CHECK(decodeTcpAddress("tcp4 sockets=1 slot=1" + rest)->hostId == 5);
  for (const std::string bad : {"", "tcp4", "tcp4 sockets=0 slot=1", "tcp4 sockets=17 slot=1", "tcp4 sockets=1 slot=0",
                                "tcp4 sockets=1 slot=1 ", "tcp3 sockets=1 slot=1", "tcp4 sockets=-1 slot=1",
                                "tcp4 sockets=1 slot=99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(decodeTcpAddress(bad).status().code() == tuttiRemoteError);
    CHECK(decodeTcpAddress(bad + rest).status().code() == tuttiRemoteError);
  }
  CHECK(!decodeTcpAddress("tcp4 sockets=1 slot=1 reconnect=3 window=65536 host=5 paths=1 seal=0").ok());
  CHECK(!decodeTcpAddress("tcp4 sockets=1 slot=1 reconnect=1 window=65536 host=5 paths=0 seal=0").ok());
  CHECK(!decodeTcpAddress("tcp4 sockets=1 slot=1 reconnect=1 window=65536 host=5 paths=9 seal=0").ok());
  CHECK(!decodeTcpAddress("tcp4 sockets=1 slot=1 reconnect=1 window=65536 host=5 paths=1 seal=3").ok());
  CHECK(!decodeTcpAddress("tcp4 sockets=1 slot=1" + rest + " ").ok());
  const TcpOptions sealed{.protection = tcp::Protection::Encryption};
  CHECK(decodeTcpAddress(encodeTcpAddress(sealed))->protection == tcp::Protection::Encryption);
}

TEST_CASE("ranks that protect their bytes differently, or have no keys to do it with, are told so") {
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of view(streams, 0);
  const auto connect = [&](tcp::Protection mine, tcp::Protection theirs) {
    const auto transport = TcpTransport::create(view, 0, {.protection = mine});
    REQUIRE(transport.ok());
    return awaitEndpoint(**transport, 3, encodeTcpAddress({.protection = theirs}), 0, Deadline::inMs(1000)).status();
  };
  CHECK(connect(tcp::Protection::Encryption, tcp::Protection::Tags).message() ==
        "rank 0 has TUTTI_ENCRYPT=1 and rank 3 has TUTTI_INTEGRITY=mac; set TUTTI_ENCRYPT and TUTTI_INTEGRITY alike on "
        "all ranks");
  CHECK(connect(tcp::Protection::Checksums, tcp::Protection::Encryption).code() == tuttiInvalidUsage);
  CHECK(connect(tcp::Protection::Encryption, tcp::Protection::Encryption).message() ==
        "TUTTI_ENCRYPT=1 cannot be had with rank 3: its connections were made without a secret");
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
        "TUTTI_NSOCKETS is 2 here and 4 on rank 3; it must be the same on all ranks");
  CHECK(connect({.nSockets = 2, .slotBytes = 2048}).message() ==
        "TUTTI_SLOT_BYTES is 1024 here and 2048 on rank 3; it must be the same on all ranks");
  CHECK(connect({.nSockets = 2, .slotBytes = 1024}).ok());
}

TEST_CASE("the pieces of a message are its bytes, once each and in order") {
  const bool paths = GENERATE(false, true);
  for (const uint32_t spread : {1u, 2u, 3u, 16u}) {
    for (const size_t bytes : interestingSizes(5'000'000)) {
      CAPTURE(paths, spread, bytes);
      const tcp::Pieces pieces(bytes, spread, paths);
      REQUIRE(pieces.count >= 1);
      REQUIRE(pieces.count <= 64);
      size_t end = 0;
      for (uint32_t i = 0; i < pieces.count; ++i) {
        CHECK(pieces[i].offset == end);
        CHECK((pieces[i].bytes > 0 || bytes == 0));
        end += pieces[i].bytes;
      }
      CHECK(end == bytes);
      const size_t most = paths ? tcp::kMostPathWholeBytes : 2 * tcp::kLeastPieceBytes - 1;
      CHECK((pieces.count == 1) == (spread == 1 || bytes <= most));
      // What the slowest of several interfaces holds up is a small part.
      if (paths && spread == 2 && bytes >= 1 << 20) CHECK(pieces[0].bytes <= bytes / 14);
    }
  }
}

namespace {

/// An endpoint over three sockets, and their other ends, which are ours.
struct Spread {
  static constexpr size_t kSlot = 512 << 10;
  Spread() {
    std::vector<Fd> fds;
    for (int i = 0; i < 3; ++i) {
      auto both = loopbackPair(AF_UNIX, 1 << 20);
      fds.push_back(std::move(both->first));
      ours.push_back(std::move(both->second));
    }
    endpoint = std::make_unique<tcp::TcpEndpoint>(1, 0, std::move(fds), kSlot, nullptr);
  }
  void put(size_t socket, const tcp::Header& header, const std::vector<std::byte>& message) const {
    const tcp::HeaderBytes head = tcp::encodeHeader(header);
    const tcp::Piece piece = tcp::Pieces(header.bytes, header.spread, header.paths)[header.piece];
    REQUIRE(::send(ours[socket].get(), head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()));
    REQUIRE(::send(ours[socket].get(), message.data() + piece.offset, piece.bytes, 0) ==
            static_cast<ssize_t>(piece.bytes));
  }
  std::vector<Fd> ours;
  std::unique_ptr<tcp::TcpEndpoint> endpoint;
};

std::vector<std::byte> someBytes(size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 11);
  return bytes;
}

}  // namespace

TEST_CASE("pieces may come by any socket in any order, and those of later messages before them") {
  const Spread both;
  const size_t bytes = 4 * tcp::kLeastPieceBytes + 5000;
  const std::vector<std::byte> first = someBytes(bytes, 1), second = someBytes(bytes, 2);
  const auto header = [&](uint16_t number, uint32_t piece) {
    return tcp::Header{bytes, callNumber(number), 3, false, number, piece};
  };
  std::vector<std::byte> out(bytes);
  const auto receive = [&](uint16_t number) { return both.endpoint->receive(out.data(), {bytes, callNumber(number)}); };
  // All of the first but a piece go by two sockets, and then the second message by these: a link that is slow.
  both.put(2, header(0, 3), first);
  both.put(0, header(0, 0), first);
  both.put(2, header(0, 1), first);
  both.put(0, header(0, 4), first);
  for (const uint32_t piece : {4u, 2u, 0u}) both.put(2, header(1, piece), second);
  for (int i = 0; i < 20; ++i) REQUIRE(*receive(0) == false);
  both.put(1, header(0, 2), first);
  for (int i = 0; i < 20 && !*receive(0); ++i) {
  }
  CHECK(out == first);
  both.put(1, header(1, 1), second);
  both.put(0, header(1, 3), second);
  for (int i = 0; i < 20 && !*receive(1); ++i) {
  }
  CHECK(out == second);
  // A small one has only the first socket to come by.
  both.put(0, {300, callNumber(2), 3, false, 2, 0}, second);
  out.resize(300);
  REQUIRE(*both.endpoint->receive(out.data(), {300, callNumber(2)}));
  CHECK(std::equal(out.begin(), out.end(), second.begin()));
}

TEST_CASE("a message that is cut for several interfaces is an error where there is one") {
  const Spread both;
  const size_t bytes = 3 * tcp::kLeastPieceBytes;
  both.put(0, {bytes, callNumber(0), 3, false, 0, 0, true}, someBytes(bytes, 3));
  std::vector<std::byte> out(bytes);
  Status status;
  for (int i = 0; i < 20 && status.ok(); ++i)
    status = both.endpoint->receive(out.data(), {bytes, callNumber(0)}).status();
  CHECK(status.message() == "tcp: rank 1 cuts messages for another number of interfaces");
}

TEST_CASE("a piece that has come before, or that is of another message, ends the endpoint with an error") {
  const size_t bytes = 3 * tcp::kLeastPieceBytes;
  const std::vector<std::byte> message = someBytes(bytes, 3);
  std::vector<std::byte> out(bytes);
  for (const tcp::Header& wrong :
       {tcp::Header{bytes, callNumber(0), 3, false, 0, 0}, tcp::Header{bytes, callNumber(1), 3, false, 0, 1},
        tcp::Header{bytes + 1, callNumber(0), 3, false, 0, 1}}) {
    const Spread both;
    both.put(0, {bytes, callNumber(0), 3, false, 0, 0}, message);
    both.put(1, wrong, someBytes(bytes + 1, 3));
    Status status;
    for (int i = 0; i < 20 && status.ok(); ++i)
      status = both.endpoint->receive(out.data(), {bytes, callNumber(0)}).status();
    CHECK(status.code() == tuttiRemoteError);
    CHECK(status.message().find("piece ") != std::string::npos);
  }
}

TEST_CASE("a socket without room takes no piece, and the others take them all") {
  const Spread both;
  const size_t bytes = 8 * tcp::kLeastPieceBytes;
  const std::vector<std::byte> message = someBytes(bytes, 4);
  // Nobody reads the first two: they fill, and the rest goes by the third.
  std::vector<std::byte> scratch(1 << 20);
  std::array<size_t, 3> taken{};
  const auto read = [&](size_t socket) {
    const ssize_t n = ::recv(both.ours[socket].get(), scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (n > 0) taken[socket] += static_cast<size_t>(n);
  };
  constexpr int kMessages = 60;
  int sent = 0;
  for (int i = 0; i < 200'000 && sent < kMessages; ++i) {
    if (*both.endpoint->send(message.data(), bytes, callNumber(static_cast<uint64_t>(sent)))) ++sent;
    read(2);
  }
  CHECK(sent == kMessages);
  for (int i = 0; i < 100; ++i) {
    for (const size_t socket : {0, 1, 2}) read(socket);
  }
  CHECK(taken[0] + taken[1] + taken[2] == kMessages * (bytes + 8 * tcp::kHeaderBytes));
  CHECK(taken[2] > 5 * (taken[0] + taken[1]));
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
  uint16_t number = 0;
  for (const std::vector<size_t>& sizes :
       std::vector<std::vector<size_t>>{{8, 8, 0, 100},
                                        {kAhead, kAhead, kAhead, kAhead, kAhead},
                                        {kAhead, kAhead, kAhead, kAhead - 144, 64, kAhead},
                                        {8, 80'000, 8},
                                        {kAhead, kAhead, kAhead, 50'000, 0, 1}}) {
    for (const Take take : {Take::Receive, Take::Peek}) {
      std::vector<std::byte> wire;
      for (uint32_t i = 0; i < sizes.size(); ++i) {
        const tcp::HeaderBytes header = tcp::encodeHeader({sizes[i], callNumber(i), 1, false, number++});
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
