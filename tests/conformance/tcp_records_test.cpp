// Messages in records over several sockets: whatever comes first and wherever a read ends, each message has its bytes.
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>

#include "tests/conformance/loopback.hpp"
#include "tests/conformance/traffic.hpp"
#include "tests/support/record_seals.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"
#include "transport/tcp/endpoint.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

constexpr uint32_t kSockets = 2;
constexpr size_t kSlot = 512 << 10;

std::vector<std::byte> numberedBytes(uint16_t number, size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + number * 40503u) >> 11);
  return bytes;
}

struct Numbered {
  uint16_t number;
  std::vector<std::byte> bytes;
  tcp::Header header(uint32_t piece) const {
    return {bytes.size(), callNumber(number), kSockets, false, number, piece};
  }
  tcp::Pieces pieces() const { return {bytes.size(), kSockets}; }
  Expect expect() const { return {bytes.size(), callNumber(number)}; }
};

/// The far end of a socket: what is put on its wire comes when it is let.
struct FarSocket {
  Fd fd;
  std::unique_ptr<tcp::ResumableStream> stream;
  std::vector<std::byte> wire;

  void put(std::span<const Numbered* const> messages, uint32_t piece, tcp::Large large) {
    std::vector<tcp::HeaderBytes> heads;
    std::vector<iovec> parts;
    heads.reserve(messages.size());
    size_t wanted = 0;
    for (const Numbered* m : messages) {
      const tcp::Piece body = m->pieces()[piece];
      heads.push_back(tcp::encodeHeader(m->header(piece)));
      parts.push_back({heads.back().data(), tcp::kHeaderBytes});
      if (body.bytes > 0) parts.push_back({const_cast<std::byte*>(m->bytes.data() + body.offset), body.bytes});
      wanted += tcp::kHeaderBytes + body.bytes;
    }
    listen();
    REQUIRE(stream->write(parts, 0, SIZE_MAX, large) == wanted);
    say();
  }
  void say() {
    std::array<iovec, 9> parts;
    while (const size_t n = stream->toSend(parts)) {
      size_t bytes = 0;
      for (const iovec& part : std::span(parts).first(n)) {
        const auto* data = static_cast<const std::byte*>(part.iov_base);
        wire.insert(wire.end(), data, data + part.iov_len);
        bytes += part.iov_len;
      }
      stream->wasSent(bytes);
    }
  }
  void deliver(size_t most) {
    const ssize_t n = ::send(fd.get(), wire.data(), std::min(most, wire.size()), MSG_DONTWAIT);
    if (n > 0) wire.erase(wire.begin(), wire.begin() + n);
  }
  /// Acknowledgements, which make room for more.
  void listen() {
    const auto room = stream->room();
    const ssize_t n = ::recv(fd.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (n > 0) REQUIRE(stream->came(static_cast<size_t>(n)).ok());
  }
};

/// An endpoint with records over two sockets, and their far ends, which are ours.
struct WithRecords {
  explicit WithRecords(tcp::Protection protection) {
    std::vector<Fd> fds;
    tcp::Sealing sealing{protection, {}};
    for (FarSocket& end : far) {
      auto both = loopbackPair(AF_UNIX, 1 << 20);
      fds.push_back(std::move(both->first));
      end.fd = std::move(both->second);
      end.stream =
          std::make_unique<tcp::ResumableStream>(reopener->settings().windowBytes, test::sealOf(protection, 0));
      sealing.keys.push_back(test::recordKeysOf(1));
    }
    endpoint = std::make_unique<tcp::TcpEndpoint>(
        1, 0, std::move(fds), kSlot, nullptr, std::make_shared<tcp::EmptyLooks>(), reopener, tcp::Tuning{}, sealing);
  }
  /// Puts pieces of a message on these sockets' wires, in turn.
  void put(const Numbered& message, std::initializer_list<size_t> sockets) {
    const Numbered* const one[] = {&message};
    const uint32_t pieces = message.pieces().count;
    for (uint32_t piece = 0; piece < pieces; ++piece)
      far[sockets.begin()[piece % sockets.size()]].put(one, piece, pieces > 1 ? tcp::Large::Alone : tcp::Large::Joined);
  }
  LoopbackStreams streams{AF_UNIX, 0};
  LoopbackStreams::Of view{streams, 0};
  std::shared_ptr<tcp::Reopener> reopener =
      std::make_shared<tcp::Reopener>(view, 0, tcp::Reopener::Settings{.windowBytes = 4 << 20});
  std::array<FarSocket, kSockets> far;
  std::unique_ptr<tcp::TcpEndpoint> endpoint;
};

/// Whether the next message has come, by this way of taking it; then it is compared.
bool takenRight(tcp::TcpEndpoint& endpoint, const Numbered& message, Take take, std::vector<std::byte>& out) {
  if (take == Take::Receive) {
    out.resize(message.bytes.size());
    const Result<bool> came = endpoint.receive(out.data(), message.expect());
    REQUIRE(came.ok());
    const bool right = !*came || out == message.bytes;
    REQUIRE(right);
    return *came;
  }
  const Result<const std::byte*> came = endpoint.peek(message.expect());
  REQUIRE(came.ok());
  if (*came == nullptr) return false;
  const bool right = std::equal(message.bytes.begin(), message.bytes.end(), *came);
  REQUIRE(right);
  endpoint.release();
  return true;
}

}  // namespace

TEST_CASE("a message that comes by one socket waits beside the one before it, which comes by another") {
  std::vector<std::byte> out;
  for (const tcp::Protection protection : test::protections()) {
    for (const size_t bytes : {size_t{5000}, size_t{61'568}, 2 * tcp::kLeastPieceBytes - 1}) {
      for (const size_t cut : {size_t{100}, bytes / 2, SIZE_MAX}) {
        for (const Take take : {Take::Receive, Take::Peek}) {
          CAPTURE(static_cast<int>(protection), bytes, cut, static_cast<int>(take));
          WithRecords near(protection);
          const Numbered first{0, numberedBytes(0, 300'000)}, second{1, numberedBytes(1, bytes)};
          near.put(first, {1});
          near.put(second, {0});
          // All, or a part, of the second before the first, while nobody has asked for either.
          near.far[0].deliver(cut);
          REQUIRE(near.endpoint->progress().ok());
          for (int i = 0; i < 50 && !near.far[1].wire.empty(); ++i) {
            near.far[1].deliver(70'000);
            REQUIRE(near.endpoint->progress().ok());
          }
          near.far[0].deliver(SIZE_MAX);
          for (const Numbered* message : {&first, &second}) {
            bool came = false;
            for (int i = 0; i < 50 && !came; ++i) came = takenRight(*near.endpoint, *message, take, out);
            CHECK(came);
          }
        }
      }
    }
  }
}

TEST_CASE("messages in records that arrive by parts on either socket have their bytes", "[thorough]") {
  std::vector<std::byte> out;
  for (const uint64_t seed : testSeeds(1, test::kThorough ? 300 : 30)) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    const auto upTo = [&](size_t most) { return static_cast<size_t>(dice() % (most + 1)); };
    WithRecords near(test::protections()[seed % test::protections().size()]);
    std::deque<Numbered> line;  // put on wires, and not taken
    uint16_t number = 0;
    Take take = Take::Receive;
    const auto putSome = [&] {
      if (upTo(2) == 0) {  // pieces by either socket
        line.push_back({number, numberedBytes(number, 2 * tcp::kLeastPieceBytes + upTo(150'000))});
        ++number;
        const Numbered* const one[] = {&line.back()};
        for (uint32_t piece = 0; piece < line.back().pieces().count; ++piece)
          near.far[upTo(2) == 0 ? 0 : 1].put(one, piece, tcp::Large::Alone);
        return;
      }
      const size_t most = upTo(1) == 0 ? 6000 : 2 * tcp::kLeastPieceBytes - 1;
      const size_t n = 1 + upTo(3);
      std::vector<const Numbered*> row;
      for (size_t i = 0; i < n; ++i, ++number) line.push_back({number, numberedBytes(number, upTo(most))});
      for (size_t i = 0; i < n; ++i) row.push_back(&line[line.size() - n + i]);
      near.far[0].put(row, 0, tcp::Large::Joined);
    };
    int steps = 0;
    for (; number < 60 || !line.empty(); ++steps) {
      REQUIRE(steps < 200'000);
      FarSocket& some = near.far[upTo(1)];
      switch (dice() % 8) {
        case 0:
          if (number < 60 && line.size() < 5) putSome();
          break;
        case 1:
          some.stream->probe();  // a record without bytes of the stream
          some.say();
          break;
        case 2:
        case 3:
        case 4: some.deliver(upTo(3) == 0 ? upTo(100) : upTo(200'000)); break;
        case 5: REQUIRE(near.endpoint->progress().ok()); break;
        case 6: some.listen(); break;
        case 7:
          if (line.empty() || !takenRight(*near.endpoint, line.front(), take, out)) break;
          line.pop_front();
          take = upTo(1) == 0 ? Take::Receive : Take::Peek;
          break;
      }
    }
  }
}
