// Endpoints that pack numbers, over every transport: small integers, which all formats have, come through as they are.
#include <catch2/catch.hpp>
#include <cstring>

#include "src/exec/packed_endpoint.hpp"
#include "tests/conformance/each.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

constexpr WireFormat kNarrow[] = {WireFormat::Bf16, WireFormat::Fp8, WireFormat::Int8};

float numberOf(uint32_t message, size_t i) { return static_cast<float>((message * 5 + i * 7) % 15) - 7; }

/// `count` floats, `shift` bytes off the beginning of a vector that is longer.
struct Floats {
  Floats(size_t count, size_t shift) : n(count), at(shift), bytes(shift + 4 * count + 8, std::byte{0x77}) {}
  std::byte* data() { return bytes.data() + at; }
  size_t size() const { return 4 * n; }
  void fill(uint32_t message) {
    for (size_t i = 0; i < n; ++i) {
      const float x = numberOf(message, i);
      std::memcpy(data() + 4 * i, &x, 4);
    }
  }
  bool is(uint32_t message) {
    Floats expected(n, at);
    expected.fill(message);
    return bytes == expected.bytes;
  }
  size_t n, at;
  std::vector<std::byte> bytes;
};

/// Both ends, packed.
struct Packed {
  Packed(Pair& pair, const WireCode& code, size_t sliceBytes)
      : first(pair.first(), code, sliceBytes), second(pair.second(), code, sliceBytes) {}
  PackedEndpoint first, second;
};

Answer transfer(Harness& harness, Endpoint& from, Endpoint& to, size_t count, uint32_t number, int way) {
  Floats out(count, number % 4), in(count, (number + 1) % 4);
  out.fill(number);
  const Expect expect{out.size(), callNumber(number)};
  bool sent = false, came = false;
  std::span<std::byte> room;
  return poll(harness, [&]() -> Result<bool> {
    (void)harness.progress();
    if (!sent && way % 2 == 0) {
      TUTTI_ASSIGN(sent, from.send(out.data(), out.size(), callNumber(number)));
    } else if (!sent) {
      if (room.empty()) {
        TUTTI_ASSIGN(room, from.reserve());
        if (room.empty()) return false;
        std::memcpy(room.data(), out.data(), out.size());
      }
      TUTTI_ASSIGN(sent, from.commit(out.size(), callNumber(number)));
    }
    if (!came && way / 2 == 0) {
      TUTTI_ASSIGN(came, to.receive(in.data(), expect));
    } else if (!came) {
      TUTTI_ASSIGN(const std::byte* const message, to.peek(expect));
      if (message == nullptr) return false;
      TUTTI_ASSIGN(const std::byte* const again, to.peek(expect));
      if (again != message) return internalError("a second peek() before release() gave another place");
      if (count > 0) std::memcpy(in.data(), message, in.size());
      to.release();
      came = true;
    }
    if (!sent || !came) return false;
    if (!in.is(number)) return internalError("message ", number, " of ", count, " numbers has wrong content");
    return true;
  });
}

}  // namespace

TEST_CASE(
    "packed messages of any number of elements come through every transport, whichever way they are sent and taken") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    const size_t slice = pair.first().slotBytes() / 64 * 64;
    uint32_t number = 0;
    for (const WireFormat format : kNarrow) {
      Packed ends(pair, {format, tuttiFloat32}, slice);
      CHECK(ends.first.slotBytes() == slice);
      for (const size_t count : {size_t{1}, size_t{0}, size_t{31}, size_t{33}, size_t{100}, slice / 4 - 1, slice / 4}) {
        for (int way = 0; way < 4; ++way, ++number) {
          CAPTURE(wireFormatName(format), count, way);
          if (count > slice / 4) continue;
          REQUIRE(transfer(harness, ends.first, ends.second, count, number, way).status().message() == "");
          REQUIRE(transfer(harness, ends.second, ends.first, count, number, way).status().message() == "");
        }
      }
    }
  });
}

TEST_CASE("a packed message of another call or of another size is refused by name") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    Packed ends(pair, {WireFormat::Bf16, tuttiFloat32}, 256);
    Floats out(64, 0), in(64, 0);
    out.fill(3);
    REQUIRE(*poll(harness, [&] { return ends.first.send(out.data(), out.size(), callNumber(3)); }));
    const Answer refused = poll(harness, [&]() -> Result<bool> {
      (void)harness.progress();
      TUTTI_ASSIGN(const std::byte* const message, ends.second.peek({in.size(), callNumber(4)}));
      return message != nullptr;
    });
    CHECK(refused.status().code() == tuttiInvalidUsage);
    CHECK(ends.second.seen() == callNumber(3));
  });
}
