// What is particular to tcp: its headers, addresses, stripes, and how its failures read.
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "tests/conformance/loopback.hpp"
#include "tests/conformance/traffic.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/transport.hpp"

using namespace tutti;
using namespace tutti::conformance;

TEST_CASE("a header is read back as it was written, and nothing else is read as one") {
  const tcp::Header header{4711, callNumber(3), 2};
  tcp::HeaderBytes bytes = tcp::encodeHeader(header);
  CHECK(*tcp::decodeHeader(bytes, 2) == header);
  CHECK(tcp::decodeHeader(bytes, 1).status().code() == tuttiRemoteError);  // spread over more than there are
  for (const size_t broken : {0u, 3u, 7u, 15u}) {                          // magic, spread, the size's highest byte
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
  for (const char* bad : {"", "tcp1", "tcp1 sockets=0 slot=1", "tcp1 sockets=17 slot=1", "tcp1 sockets=1 slot=0",
                          "tcp1 sockets=1 slot=1 ", "tcp2 sockets=1 slot=1", "tcp1 sockets=-1 slot=1",
                          "tcp1 sockets=1 slot=99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(decodeTcpAddress(bad).status().code() == tuttiRemoteError);
  }
}

TEST_CASE("ranks with different options are told which variable, which values and which ranks") {
  LoopbackStreams streams(AF_UNIX, 0);
  LoopbackStreams::Of view(streams, 0);
  const auto transport = TcpTransport::create(view, 0, {.nSockets = 2, .slotBytes = 1024});
  const auto connect = [&](const TcpOptions& theirs) {
    return (*transport)->connect(3, encodeTcpAddress(theirs), 0, Deadline::inMs(1000)).status();
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
    tcp::TcpChannel channel(5, 0, std::move(fds), 1024, nullptr);
    REQUIRE(::send(both->second.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    if (close) both->second.reset();
    std::vector<std::byte> out(100);
    Result<bool> last = false;
    for (int i = 0; i < 5 && last.ok(); ++i) last = channel.receive(out.data(), {100, callNumber(1)});
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
