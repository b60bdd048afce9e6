// Records under checksums, tags and encryption: what is changed on the wire is noticed, and what is hidden is not
// there. A failing seed is printed; TUTTI_TEST_SEED=<seed>, or 1-100000, runs it alone.
#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "tests/support/seeds.hpp"
#include "tests/unit/transport/resumable_world.hpp"

using namespace tutti;
using namespace tutti::tcp;
using namespace tutti::tcp::test;

TEST_CASE("a flipped bit anywhere on the wire is noticed, and nothing wrong is given out, by seed") {
  for (const Protection protection : protections()) {
    for (const uint64_t seed : testSeeds(1, 1000)) {
      CAPTURE(static_cast<int>(protection), seed);
      std::mt19937_64 dice(seed);
      World world(kWindow, protection);
      for (const int side : {0, 1}) {
        REQUIRE(world.write(side, 1 + dice() % 3000, dice() % 100) > 0);
        if (dice() % 4 == 0) world.stream(side).probe();
        while (world.send(side, SIZE_MAX) > 0) {
        }
      }
      const int side = static_cast<int>(dice() % 2);
      world.damage(side, dice() % world.onTheWay(side), static_cast<unsigned>(dice() % 8));
      // A damaged length may have the reader wait for more, which the checksum of the head tells at once.
      REQUIRE_FALSE(world.settle());
      REQUIRE(world.right());
      for (const int s : {0, 1}) world.reconnect(s);
      REQUIRE(world.settle());
      REQUIRE(world.right());
      for (const int s : {0, 1}) REQUIRE(world.taken(s) == world.stream(1 - s).written());
    }
  }
}

TEST_CASE("what is encrypted cannot be read on the wire; the rest can") {
  for (const Protection protection : protections()) {
    World world(kWindow, protection);
    REQUIRE(world.write(0, 1000, 10) == 1000);
    REQUIRE(world.send(0, SIZE_MAX) > 1000);
    std::array<std::byte, 32> some;
    for (size_t i = 0; i < some.size(); ++i) some[i] = byteAt(500 + i, 0);
    CHECK(world.onTheWayHas(0, some) == (protection != Protection::Encryption));
  }
}

TEST_CASE("records of another key, of another direction or of an earlier connection are refused") {
  if (protections().size() == 1) return;
  const auto bytesOf = [](ResumableStream& stream) {
    std::array<iovec, 8> parts;
    const size_t n = stream.toSend(parts);
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < n; ++i) {
      const auto* at = static_cast<const std::byte*>(parts[i].iov_base);
      bytes.insert(bytes.end(), at, at + parts[i].iov_len);
    }
    stream.wasSent(bytes.size());
    return bytes;
  };
  const auto come = [](ResumableStream& stream, const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), stream.room().begin());
    return stream.came(bytes.size()).ok();
  };
  for (const bool encrypts : {false, true}) {
    const auto make = [&](Secret send, Secret receive) {
      return std::make_unique<ResumableStream>(
          kWindow, std::make_unique<RecordSeal>(DirectionKeys{std::move(send), std::move(receive)}, encrypts));
    };
    std::array<std::byte, 100> data{};
    const iovec part{data.data(), data.size()};
    const auto a = make({1}, {2});
    REQUIRE(a->write(std::span(&part, 1), 0) == data.size());
    const std::vector<std::byte> record = bytesOf(*a);
    CHECK(come(*make({2}, {1}), record));
    CHECK_FALSE(come(*make({2}, {3}), record));  // another key
    CHECK_FALSE(come(*make({1}, {2}), record));  // the sender's own, reflected
    ResumableStream plain(kWindow);              // without a seal
    for (int i = 0; i < 3; ++i) REQUIRE(plain.write(std::span(&part, 1), 0) == data.size());
    CHECK_FALSE(come(*make({2}, {1}), bytesOf(plain)));
    const auto b = make({2}, {1});
    REQUIRE(come(*b, record));
    CHECK_FALSE(come(*b, record));  // once more
    // A word of an earlier connection on a later one.
    const auto c = make({1}, {2}), d = make({2}, {1});
    c->probe();
    const std::vector<std::byte> word = bytesOf(*c);
    REQUIRE(come(*d, word));
    CHECK_FALSE(come(*d, word));
  }
}
