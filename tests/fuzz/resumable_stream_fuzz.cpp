// Fuzzes ResumableStream: records of any content whose checksums are right, as only a peer with the secret could send
// them, in pieces, with reads, writes and new connections in between.  What must always hold is checked after each.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/base/crc32c.hpp"
#include "transport/tcp/resumable_stream.hpp"

using namespace tutti::tcp;

namespace {

/// Takes bytes off the front of the input; zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint64_t number(size_t bytes) {
    uint64_t n = 0;
    for (size_t i = 0; i < bytes && size_ > 0; ++i, ++data_, --size_) n = n << 8 | *data_;
    return n;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

std::vector<std::byte> record(Input& input) {
  const auto kind = static_cast<uint8_t>(input.number(1) % 7);
  const bool says = kind == 1 || kind == 3 || kind == 5;  // data, resume, rest
  const auto bytes = static_cast<uint32_t>(says ? input.number(2) : 0);
  std::vector<std::byte> out(kRecordHeadBytes + (kind == 1 ? bytes : 0));
  const uint16_t magic = 0x7254;
  const uint64_t position = input.number(3), consumed = input.number(3);
  std::memcpy(out.data(), &magic, 2);
  std::memcpy(out.data() + 2, &kind, 1);
  std::memcpy(out.data() + 4, &bytes, 4);
  std::memcpy(out.data() + 8, &position, 8);
  std::memcpy(out.data() + 16, &consumed, 8);
  const uint32_t payload = tutti::crc32c(out.data() + kRecordHeadBytes, out.size() - kRecordHeadBytes);
  std::memcpy(out.data() + 24, &payload, 4);
  const uint32_t head = tutti::crc32c(out.data(), 28);
  std::memcpy(out.data() + 28, &head, 4);
  return out;
}

/// False: refused.
bool arrive(ResumableStream& stream, std::vector<std::byte> bytes, size_t piece) {
  for (size_t at = 0; at < bytes.size();) {
    const auto room = stream.room();
    const size_t n = std::min({room.size(), piece, bytes.size() - at});
    if (n == 0) return false;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
    if (!stream.came(n).ok()) return false;
    at += n;
  }
  return true;
}

/// As a reader that wants what comes in `part`, after what is here; a piece of the bytes, then the rest.
void arriveStraight(ResumableStream& stream, std::vector<std::byte> bytes, iovec part) {
  if (part.iov_len == 0 || stream.take(std::span(&part, 1)) > 0) return;
  for (size_t at = 0; at < bytes.size();) {
    std::array<iovec, 5> to;
    const size_t n = stream.aim(std::span(&part, 1), to);
    size_t come = 0;
    for (size_t i = 0; i < n && at + come < bytes.size(); ++i) {
      const size_t some = std::min({to[i].iov_len, bytes.size() - at - come, size_t{3000}});
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + come), some,
                  static_cast<std::byte*>(to[i].iov_base));
      come += some;
      if (some < to[i].iov_len) break;
    }
    if (come == 0 || !stream.came(come).ok()) return stream.connect();
    at += come;
    if (stream.take(std::span(&part, 1)) > 0) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  ResumableStream stream(kLeastWindowBytes);
  std::vector<std::byte> memory(1 << 16);
  while (!input.empty()) {
    const uint64_t what = input.number(1);
    const size_t bytes = input.number(2);
    const iovec part{memory.data(), bytes};
    std::array<iovec, 8> parts;
    switch (what % 7) {
      case 0:
      case 1:
        if (!arrive(stream, record(input), 1 + bytes)) stream.connect();
        break;
      case 2: (void)stream.take(std::span(&part, 1)); break;
      case 3: (void)stream.write(std::span(&part, 1), 0); break;
      case 4: {
        size_t all = 0;
        const size_t n = stream.toSend(parts);
        for (size_t i = 0; i < n; ++i) all += parts[i].iov_len;
        stream.wasSent(std::min(all, bytes));
        break;
      }
      case 5: stream.connect(); break;
      case 6: arriveStraight(stream, record(input), part); break;
    }
    stream.check();
  }
  return 0;
}
