#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "src/control/session/frame.hpp"

using namespace tutti;

namespace {

/// Feed a stream in pieces of at most `piece` bytes; the messages, or the error as the last of them.
std::vector<std::string> decode(const std::string& stream, size_t piece, size_t limit) {
  FrameReader reader;
  reader.setLimit(limit);
  std::vector<std::string> messages;
  for (size_t at = 0; at < stream.size() || reader.complete();) {
    if (reader.complete()) {
      messages.emplace_back(reader.message());
      reader.next();
      continue;
    }
    const std::span<char> room = reader.room();
    const size_t n = std::min({room.size(), piece, stream.size() - at});
    std::memcpy(room.data(), stream.data() + at, n);
    at += n;
    if (const Status s = reader.advance(n); !s.ok()) {
      messages.push_back("error: " + s.message());
      break;
    }
  }
  return messages;
}

}  // namespace

TEST_CASE("messages come out of a stream as they went in, however it is cut") {
  const std::vector<std::string> sent = {"a", "", std::string(200'000, 'x'), "end"};
  std::string stream;
  for (const std::string& message : sent) appendFrame(&stream, message);
  const size_t piece = GENERATE(1, 3, 4096, 1 << 20);
  CAPTURE(piece);
  CHECK(decode(stream, piece, 1 << 20) == sent);
}

TEST_CASE("a message that is too large is refused when it is announced") {
  std::string stream;
  appendFrame(&stream, std::string(100, 'x'));
  CHECK(decode(stream, 1000, 99).at(0) == "error: a message of 100 bytes was announced; the most is 99");
}

TEST_CASE("a length that is damaged is known at once, also one of fewer bytes than the most") {
  std::string stream;
  appendFrame(&stream, "hello");
  for (size_t bit = 0; bit < 64; ++bit) {
    std::string damaged = stream;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    CHECK(decode(damaged, 100, 64 << 20).at(0) ==
          "error: what came is no message of this version of Tutti, or was damaged on its way");
  }
}

TEST_CASE("the reader never asks for a byte behind the message it is in") {
  FrameReader reader;
  reader.setLimit(1 << 20);
  std::string frame;
  appendFrame(&frame, "hello");
  size_t at = 0;
  while (!reader.complete()) {
    const std::span<char> room = reader.room();
    REQUIRE(room.size() <= frame.size() - at);
    std::memcpy(room.data(), frame.data() + at, room.size());
    at += room.size();
    REQUIRE(reader.advance(room.size()).ok());
  }
  CHECK(at == frame.size());
  CHECK(reader.message() == "hello");
}
