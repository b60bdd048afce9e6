// Fuzzes FrameReader: the first byte says in what pieces the rest arrives.  What comes out must be what a plain reading
// of the same bytes gives, whatever the pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/crc32c.hpp"
#include "src/control/session/frame.hpp"

namespace {

constexpr size_t kLimit = 1 << 16;

std::vector<std::string> plainly(std::string_view stream) {
  std::vector<std::string> messages;
  while (stream.size() >= 8) {
    size_t length = 0;
    for (int i = 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(stream[static_cast<size_t>(i)]);
    uint32_t crc = 0;
    std::memcpy(&crc, stream.data() + 4, 4);
    if (length > kLimit || crc != tutti::crc32c(stream.data(), 4)) {
      messages.push_back("refused");
      break;
    }
    if (stream.size() - 8 < length) break;
    messages.emplace_back(stream.substr(8, length));
    stream.remove_prefix(8 + length);
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = data[0] + size_t{1};
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  tutti::FrameReader reader;
  reader.setLimit(kLimit);
  std::vector<std::string> messages;
  for (size_t at = 0;;) {
    if (reader.complete()) {
      messages.emplace_back(reader.message());
      reader.next();
      continue;
    }
    if (at == stream.size()) break;
    const std::span<char> room = reader.room();
    if (room.empty()) std::abort();
    const size_t n = std::min({room.size(), piece, stream.size() - at});
    std::memcpy(room.data(), stream.data() + at, n);
    at += n;
    if (!reader.advance(n).ok()) {
      messages.push_back("refused");
      break;
    }
  }
  if (messages != plainly(stream)) std::abort();
  return 0;
}
