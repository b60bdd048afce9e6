// The stream that outlives its connections, in a world of bytes: cuts at every byte, damage, ends that notice late.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "src/base/crc32c.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/transport/resumable_world.hpp"

using namespace tutti;
using namespace tutti::tcp;
using namespace tutti::tcp::test;

TEST_CASE("CRC-32C is that of its standard, with and without instructions for it") {
  CHECK(crc32c("123456789", 9) == 0xe3069283);
  const std::vector<char> zeros(32, 0);
  CHECK(crc32c(zeros.data(), 32) == 0x8a9136aa);  // RFC 3720, B.4
  std::mt19937 random(1);
  std::vector<char> bytes(300);
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t from = 0; from < 9; ++from) {
    for (size_t n = 0; n + from < bytes.size(); ++n) {
      const uint32_t whole = crc32c(bytes.data() + from, n);
      REQUIRE(whole == crc32cByTable(bytes.data() + from, n));
      REQUIRE(whole == crc32c(bytes.data() + from + n / 3, n - n / 3, crc32c(bytes.data() + from, n / 3)));
    }
  }
}

TEST_CASE("a checksum does not depend on how it is computed, and a copy made with it is whole") {
  std::mt19937 random(2);
  std::vector<char> bytes(40'000), copy(bytes.size());
  for (char& byte : bytes) byte = static_cast<char>(random());
  // Around the lengths at which another way begins: 8, 3 x 256, 1024, 5712, 3 x 2048 and their multiples.
  for (const size_t n : {0,    1,    7,    8,    9,    767,  768,  769,  1023,   1024,   1025,   1279,
                         1280, 1535, 5711, 5712, 6143, 6144, 6911, 6912, 11'424, 11'425, 12'289, 39'000}) {
    for (const size_t from : {0, 1, 5, 64}) {
      CAPTURE(n, from);
      for (const uint32_t before : {0u, 0xe3069283u}) {
        const uint32_t whole = crc32cByTable(bytes.data() + from, n, before);
        REQUIRE(crc32c(bytes.data() + from, n, before) == whole);
        REQUIRE(crc32cByInstruction(bytes.data() + from, n, before) == whole);
        std::fill(copy.begin(), copy.end(), 'x');
        REQUIRE(crc32cCopy(copy.data() + 3, bytes.data() + from, n, before) == whole);
        REQUIRE(std::equal(copy.begin() + 3, copy.begin() + 3 + static_cast<std::ptrdiff_t>(n),
                           bytes.begin() + static_cast<std::ptrdiff_t>(from)));
        REQUIRE((copy[2] == 'x' && copy[3 + n] == 'x'));
      }
    }
  }
}

TEST_CASE("a connection may be cut at any byte of either direction, and each end notice first", "[thorough]") {
  // Both directions, acknowledgements among them; the cut comes after byte `at` of what `side` has sent.
  for (const int way : {0, 1, 2, 3}) {
    for (const Protection protection : protections()) {
      const int side = way / 2, first = way % 2;
      size_t at = 0;
      for (bool reached = true; reached; at += tutti::test::kThorough ? 1 : 5) {
        World world(kWindow, protection);
        size_t sent = 0;
        reached = false;
        for (int message = 0; message < 6; ++message) {
          for (const int s : {0, 1}) REQUIRE(world.write(s, message % 3 == 2 ? 40 : 7, 3) > 0);
          if (message == 3) world.stream(side).probe();
          if (!reached && sent < at + 1) {
            sent += world.send(side, at - sent);
            reached = sent == at;
          }
          if (!reached) (void)world.send(1 - side, SIZE_MAX);
          if (!reached) {
            for (const int s : {0, 1}) REQUIRE(world.arrive(s, SIZE_MAX));
            for (const int s : {0, 1}) (void)world.take(s, 5);
            continue;
          }
          // What is on the way may arrive, and then nothing more.
          for (const int s : {0, 1}) REQUIRE(world.arrive(s, SIZE_MAX));
          world.reconnect(first);
          (void)world.send(first, 11);
          world.reconnect(1 - first);
          REQUIRE(world.settle());
        }
        REQUIRE(world.settle());
        CAPTURE(side, first, at);
        REQUIRE(world.right());
        for (const int s : {0, 1}) REQUIRE(world.taken(s) == world.stream(1 - s).written());
      }
      CHECK(at > 300);
    }
  }
}

TEST_CASE("cuts, damage, ends that notice late, and readers that rest: right bytes once each, in bounded memory",
          "[thorough]") {
  uint64_t straight = 0;
  for (const uint64_t seed : testSeeds(1, tutti::test::kThorough ? 400 : 60)) {
    CAPTURE(seed);
    std::mt19937_64 dice(seed);
    const auto upTo = [&](size_t most) { return static_cast<size_t>(dice() % (most + 1)); };
    const size_t large = seed % 3 == 0 ? 200 : 30'000;
    World world(kWindow << (seed % 3), protections()[seed / 3 % protections().size()]);
    int cuts = 0;
    for (int step = 0; step < 1500; ++step) {
      const int side = static_cast<int>(dice() % 2);
      switch (dice() % 12) {
        case 0:
        case 1:
        case 2: (void)world.write(side, upTo(large), upTo(large)); break;
        case 3:
        case 4:
        case 5: (void)world.send(side, upTo(large)); break;
        case 6:
          if (!world.arrive(side, upTo(large))) world.reconnect(side);
          break;
        case 7:
          // Most often with room for whole records.
          if (!world.arriveStraight(side, upTo(large), upTo(3) == 0 ? upTo(large) : 200'000, upTo(5) == 0))
            world.reconnect(side);
          break;
        case 8:
        case 9: (void)world.take(side, upTo(large)); break;
        case 10:
          if (upTo(9) == 0) world.stream(side).probe();
          if (world.behind(side)) world.reconnect(side);
          break;
        case 11:
          if (upTo(3) == 0 && !world.isCut(side)) ++cuts, world.cut();
          if (upTo(5) == 0) world.damage(side, dice());
          if (world.isCut(side) && upTo(2) == 0) world.reconnect(side);
          break;
      }
      world.check();
    }
    for (bool whole = false; !whole;) {
      for (const int side : {0, 1}) {
        while (world.behind(side)) world.reconnect(side);
      }
      if (world.isCut(0)) {
        world.reconnect(0);
        world.reconnect(1);
      }
      whole = world.settle();
      if (!whole) {
        world.reconnect(0);
        world.reconnect(1);
      }
    }
    CHECK(cuts > 0);
    straight += world.straight();
    REQUIRE(world.right());
    for (const int side : {0, 1}) REQUIRE(world.taken(side) == world.stream(1 - side).written());
    for (const int side : {0, 1}) CHECK(world.stream(side).sent() == world.stream(side).written());
  }
  CHECK(straight > 100'000);
}

TEST_CASE(
    "a large part comes straight to its place, a damaged one is written again, and nothing is given out before it is "
    "whole") {
  for (const Protection protection : protections()) {
    for (const int way : {0, 1, 2, 3}) {
      const bool damaged = way % 2 == 1, moves = way / 2 == 1;
      CAPTURE(damaged, moves, static_cast<int>(protection));
      World world(1 << 20, protection);
      REQUIRE(world.write(0, 32 + 300'000, 32) == 32 + 300'000);
      world.stream(0).check();
      while (world.send(0, SIZE_MAX) > 0) {
      }
      if (damaged) world.damage(0, 200'000);
      uint64_t before = 0;
      for (int i = 0; i < 400 && world.taken(1) < 32 + 300'000; ++i) {
        if (!world.arriveStraight(1, 5000, world.taken(1) == 0 ? 32 : 200'000, moves && i % 7 == 6)) {
          REQUIRE(damaged);
          REQUIRE(world.straight() < 200'000);
          world.reconnect(1);
          world.reconnect(0);
          for (int round = 0; round < 3; ++round) {
            for (const int side : {0, 1}) {
              while (world.send(side, SIZE_MAX) > 0) {
              }
            }
            REQUIRE(world.arrive(0, SIZE_MAX));
          }
        }
        world.check();
        // Whole records, or what is copied out of the buffer.
        if (!moves) REQUIRE((world.taken(1) - before == 0 || world.taken(1) - before >= 32));
        before = world.taken(1);
      }
      CHECK(world.right());
      CHECK(world.taken(1) == 32 + 300'000);
      if (!moves) CHECK(world.straight() >= 250'000);
      REQUIRE(world.settle());
    }
  }
}

namespace {

/// What `from` has to send, up to `most` bytes of it, comes to `to`, to where it aims with these parts.
Status carryTo(ResumableStream& from, ResumableStream& to, size_t most, std::span<const iovec> parts,
               std::vector<iovec>* aimed = nullptr) {
  std::array<iovec, 9> sent;
  std::vector<std::byte> wire;
  for (const iovec& part : std::span(sent).first(from.toSend(sent))) {
    const auto* at = static_cast<const std::byte*>(part.iov_base);
    wire.insert(wire.end(), at, at + std::min(part.iov_len, most - wire.size()));
  }
  std::array<iovec, 5> places;
  size_t come = 0;
  for (const iovec& place : std::span(places).first(to.aim(parts, places))) {
    const size_t some = std::min(place.iov_len, wire.size() - come);
    std::copy_n(wire.data() + come, some, static_cast<std::byte*>(place.iov_base));
    come += some;
    if (aimed != nullptr) aimed->push_back(place);
  }
  from.wasSent(come);
  return to.came(come);
}

/// A stream of which a part of a record has come straight to `lent`.
struct PartOfRecord {
  explicit PartOfRecord(Protection protection)
      : from(1 << 20, sealOf(protection, 0)), to(1 << 20, sealOf(protection, 1)) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = byteAt(i, 0);
    const iovec message[] = {{data.data(), 32}, {data.data() + 32, kBytes}};
    REQUIRE(from.write(message, 0) == data.size());
    const iovec small{head.data(), head.size()};
    for (int i = 0; i < 20 && to.take(std::span(&small, 1)) == 0; ++i)
      REQUIRE(carryTo(from, to, 40, std::span(&small, 1)).ok());
    for (int i = 0; i < 4; ++i) REQUIRE(carryTo(from, to, 1000, std::span(&lentParts, 1)).ok());
  }
  bool isLent(const iovec& place) const {
    return place.iov_base >= lent.data() && place.iov_base < lent.data() + lent.size();
  }

  static constexpr size_t kBytes = 60'000;
  ResumableStream from, to;
  std::vector<std::byte> data = std::vector<std::byte>(32 + kBytes), lent = std::vector<std::byte>(kBytes),
                         head = std::vector<std::byte>(32);
  const iovec lentParts{lent.data(), lent.size()};
};

}  // namespace

TEST_CASE("a stream whose reader has gone writes none of its memory") {
  for (const Protection protection : protections()) {
    PartOfRecord t(protection);
    std::array<iovec, 5> places;
    REQUIRE(t.to.aim({}, places) > 0);
    REQUIRE(t.isLent(places[0]));  // else this tests nothing
    t.to.abandon();
    std::vector<iovec> aimed;
    CHECK(!carryTo(t.from, t.to, SIZE_MAX, {}, &aimed).ok());  // what has come of the record is lost
    for (const iovec& place : aimed) CHECK(!t.isLent(place));
    t.to.disconnect();
    t.to.check();
  }
}

TEST_CASE("memory that is lent again with less room gets no more than that") {
  for (const Protection protection : protections()) {
    PartOfRecord t(protection);
    const iovec less{t.lent.data(), 5000};
    while (t.to.received() < t.data.size()) {
      std::vector<iovec> aimed;
      REQUIRE(carryTo(t.from, t.to, 7000, std::span(&less, 1), &aimed).ok());
      for (const iovec& place : aimed) {
        if (t.isLent(place))
          CHECK(static_cast<std::byte*>(place.iov_base) + place.iov_len <= t.lent.data() + less.iov_len);
      }
    }
    std::vector<std::byte> out(t.lent.size());
    const iovec all{out.data(), out.size()};
    CHECK(t.to.take(std::span(&all, 1)) == out.size());
    CHECK(std::equal(out.begin(), out.end(), t.data.begin() + 32));
  }
}

namespace {

/// Carries `bytes` of one end's stream over connections that each end after `each` bytes of it; how many there were.
size_t overShortConnections(World& world, size_t bytes, size_t each, bool straight, int damageAt) {
  size_t connections = 0;
  while (world.taken(1) < bytes && connections < bytes) {
    ++connections;
    for (const int side : {0, 1}) world.reconnect(side);
    for (size_t left = each; left > 0;) {
      (void)world.send(1, SIZE_MAX);
      if (!world.arrive(0, SIZE_MAX)) break;
      const size_t n = world.send(0, left);
      if (n == 0) break;
      if (static_cast<int>(connections) == damageAt) world.damage(0, n - 1);
      left -= n;
      bool good = true;
      while (good && world.onTheWay(0) > 0) {
        good =
            straight ? world.arriveStraight(1, 700, world.taken(1) == 0 ? 32 : 200'000, false) : world.arrive(1, 700);
      }
      if (!good) break;
      world.check();
    }
    while (world.take(1, 1 << 16) > 0) {
    }
  }
  return connections;
}

}  // namespace

TEST_CASE("connections that all end within a record carry it in the end, and nearly no byte of it twice") {
  constexpr size_t kBytes = 32 + 300'000, kEach = 2000;
  for (const Protection protection : protections()) {
    for (const bool straight : {false, true}) {
      for (const int damageAt : {-1, 40}) {
        CAPTURE(static_cast<int>(protection), straight, damageAt);
        World world(1 << 20, protection);
        REQUIRE(world.write(0, kBytes, 32) == kBytes);
        const size_t connections = overShortConnections(world, kBytes, kEach, straight, damageAt);
        const size_t again = damageAt > 0 ? 2 * kMostRecordBytes : 0;  // the record that was damaged
        CHECK(connections <= (kBytes + again) / (kEach - 3 * kSealedHeadBytes) + 4);
        CHECK(world.stream(0).resent() <= again + connections * kSealedHeadBytes);
        REQUIRE(world.settle());
        CHECK(world.right());
        CHECK(world.taken(1) == kBytes);
      }
    }
  }
}

TEST_CASE("every flipped bit of a record is noticed, and repaired by another connection") {
  const auto ways = protections();
  for (size_t turn = 0; turn < (kSealedHeadBytes + 20) * 8 * ways.size(); ++turn) {
    const Protection protection = ways[turn % ways.size()];
    const size_t bit = turn / ways.size();
    if (protection == Protection::Checksums && bit >= (kRecordHeadBytes + 20) * 8) continue;
    CAPTURE(bit, static_cast<int>(protection));
    ResumableStream from(kWindow, sealOf(protection, 0)), to(kWindow, sealOf(protection, 1));
    std::array<std::byte, 20> data{}, out{};
    for (size_t i = 0; i < data.size(); ++i) data[i] = byteAt(i, 0);
    const iovec part{data.data(), data.size()};
    REQUIRE(from.write(std::span(&part, 1), 0) == data.size());
    const auto carry = [](ResumableStream& a, ResumableStream& b, size_t flipped) {
      std::array<iovec, 4> parts;
      const size_t n = a.toSend(parts);
      std::vector<std::byte> bytes;
      for (size_t i = 0; i < n; ++i) {
        const auto* at = static_cast<const std::byte*>(parts[i].iov_base);
        bytes.insert(bytes.end(), at, at + parts[i].iov_len);
      }
      a.wasSent(bytes.size());
      if (flipped != SIZE_MAX) bytes[flipped / 8] ^= std::byte{1} << (flipped % 8);
      std::copy(bytes.begin(), bytes.end(), b.room().begin());
      return b.came(bytes.size());
    };
    const Status status = carry(from, to, bit);
    REQUIRE(status.code() == tuttiRemoteError);
    const iovec room{out.data(), out.size()};
    REQUIRE(to.take(std::span(&room, 1)) == 0);
    from.connect();
    to.connect();
    REQUIRE(carry(from, to, SIZE_MAX).ok());
    REQUIRE(carry(to, from, SIZE_MAX).ok());
    REQUIRE(carry(from, to, SIZE_MAX).ok());
    REQUIRE(to.take(std::span(&room, 1)) == out.size());
    CHECK(out == data);
    CHECK(from.resent() == data.size());
  }
}

TEST_CASE("a writer stops at its window while nobody reads, and goes on when somebody does") {
  World world(kWindow);
  size_t taken = 0;
  for (size_t n = 1; n > 0;) {
    taken += n = world.write(0, 5000, 100);
    (void)world.send(0, SIZE_MAX);
    REQUIRE(world.arrive(1, SIZE_MAX));
    (void)world.send(1, SIZE_MAX);
    REQUIRE(world.arrive(0, SIZE_MAX));
  }
  CHECK(taken - 1 <= kWindow);
  REQUIRE(world.settle());
  CHECK(world.write(0, 5000, 100) == 5000);
  // Acknowledgements get through to an end that takes nothing while the other way is full, too.
  World both(kWindow);
  for (const int side : {0, 1}) {
    while (both.write(side, 5000, 100) > 0) (void)both.send(side, SIZE_MAX);
  }
  for (int round = 0; round < 3; ++round) {
    REQUIRE(both.arrive(1, SIZE_MAX));
    REQUIRE(both.take(1, kWindow) == (round == 0 ? kWindow : 0));
    (void)both.send(1, SIZE_MAX);
    REQUIRE(both.arrive(0, SIZE_MAX));  // whose own bytes nobody has taken
  }
  CHECK(both.write(0, 5000, 100) == 5000);
}

TEST_CASE("what is kept takes as much memory as the peer is behind, up to the window") {
  constexpr size_t kLarge = 1 << 20;
  World world(kLarge);
  for (int round = 0; round < 300; ++round) {  // each end's bytes acknowledge the other's
    for (const int side : {0, 1}) REQUIRE(world.write(side, 5000, 32) == 5000);
    REQUIRE(world.settle());
  }
  CHECK(world.stream(0).ringBytes() == kLeastWindowBytes);
  size_t kept = 0;
  for (size_t n = 1; n > 0; kept += n) n = world.write(0, 3333, 32);
  CHECK(kept > kLarge - 10'000);
  CHECK(world.stream(0).ringBytes() == kLarge);
  (void)world.send(0, 100'000);
  world.cut();
  for (const int side : {0, 1}) world.reconnect(side);
  REQUIRE(world.settle());
  CHECK(world.right());
  CHECK(world.taken(1) == world.stream(0).written());
}

TEST_CASE("a thousand small messages before the first acknowledgement are bounded, too") {
  World world(1 << 20);
  size_t messages = 0;
  while (world.write(0, 1, 1) > 0) ++messages;
  CHECK(messages == kMostRecords);
  REQUIRE(world.settle());
  CHECK(world.write(0, 1, 1) == 1);
}

TEST_CASE("bye comes behind everything else") {
  World world(kWindow);
  REQUIRE(world.write(0, 3000, 0) == 3000);
  world.stream(0).bye();
  (void)world.send(0, 100);
  REQUIRE(world.arrive(1, SIZE_MAX));
  CHECK(!world.stream(1).peerSaidBye());
  REQUIRE(world.settle());
  CHECK(world.stream(1).peerSaidBye());
  CHECK(world.taken(1) == 3000);
}

TEST_CASE("what is no record, or not of this stream, is refused with the reason") {
  const auto answer = [](std::span<const std::byte> bytes, bool second = false) {
    ResumableStream stream(kWindow);
    if (second) stream.connect();
    std::copy(bytes.begin(), bytes.end(), stream.room().begin());
    return stream.came(bytes.size()).message();
  };
  CHECK(answer(std::vector<std::byte>(40, std::byte{1})).find("damaged") != std::string::npos);
  ResumableStream other(kWindow);
  other.probe();
  std::array<iovec, 4> parts;
  const auto first = [&] {
    REQUIRE(other.toSend(parts) >= 1);
    const auto* at = static_cast<const std::byte*>(parts[0].iov_base);
    return std::vector<std::byte>(at, at + parts[0].iov_len);
  };
  CHECK(answer(first()).empty());
  CHECK(answer(first(), true) == "a connection does not begin with a resume");
  other.connect();
  CHECK(answer(first()) == "a connection does not begin with a resume");
  CHECK(answer(first(), true).empty());
  // A stream of somebody else's, that is further.
  World world(kWindow);
  REQUIRE(world.write(0, 500, 0) == 500);
  REQUIRE(world.settle());
  world.stream(1).connect();
  REQUIRE(world.stream(1).toSend(parts) >= 1);
  const auto* at = static_cast<const std::byte*>(parts[0].iov_base);
  CHECK(answer(std::span(at, parts[0].iov_len), true) == "it wants to go on at byte 500 of 0, of which 0 are gone");
}

TEST_CASE("a peer that says it keeps more of a record than there is, or goes on elsewhere in it, is refused") {
  // Two ends of which one has had a part of a record; what each says on the next connection goes to a third.
  World world(kWindow);
  REQUIRE(world.write(0, 500, 0) == 500);
  (void)world.send(0, 100);
  REQUIRE(world.arrive(1, SIZE_MAX));
  for (const int side : {0, 1}) world.reconnect(side);
  const auto said = [&](int side) {
    std::array<iovec, 4> parts;
    REQUIRE(world.stream(side).toSend(parts) >= 1);
    const auto* at = static_cast<const std::byte*>(parts[0].iov_base);
    return std::vector<std::byte>(at, at + parts[0].iov_len);
  };
  const auto answer = [](ResumableStream& stream, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), stream.room().begin());
    return stream.came(bytes.size()).message();
  };
  ResumableStream shorter(kWindow);
  std::array<std::byte, 40> data{};
  const iovec part{data.data(), data.size()};
  REQUIRE(shorter.write(std::span(&part, 1), 0) == data.size());
  shorter.connect();
  CHECK(answer(shorter, said(1)) == "it keeps 100 bytes of a record of 72");
  ResumableStream empty(kWindow);
  empty.connect();
  CHECK(answer(empty, said(1)) == "it keeps 100 bytes of a record of 0");

  REQUIRE(world.send(1, SIZE_MAX) == kRecordHeadBytes);
  REQUIRE(world.arrive(0, SIZE_MAX));
  const std::vector<std::byte> resume = said(0);
  REQUIRE(world.send(0, kRecordHeadBytes) == kRecordHeadBytes);
  const std::vector<std::byte> rest = said(0);
  ResumableStream other(kWindow);
  other.connect();
  CHECK(answer(other, resume).empty());
  CHECK(answer(other, rest) ==
        "the rest of a record at byte 0 behind its first 100 bytes came where byte 0 was to come, "
        "and 0 bytes are here");
}
