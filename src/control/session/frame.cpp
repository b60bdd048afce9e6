#include "src/control/session/frame.hpp"

#include <algorithm>
#include <cstdint>

#include "src/base/assert.hpp"
#include "src/base/crc32c.hpp"

namespace tutti {
namespace {
constexpr size_t kChunkBytes = 64 << 10;  // how far memory runs ahead of the bytes received
constexpr size_t kKeepBytes = 1 << 20;    // a buffer larger than this is given back after its message
}  // namespace

std::span<char> FrameReader::room() {
  if (!haveHeader_) return std::span<char>(header_).subspan(headerReceived_);
  const size_t want = std::min(length_ - received_, kChunkBytes);
  if (body_.size() < received_ + want) body_.resize(received_ + want);
  return {body_.data() + received_, want};
}

Status FrameReader::advance(size_t n) {
  if (haveHeader_) {
    TUTTI_ASSERT_CMP(n, <=, length_ - received_);
    received_ += n;
    return {};
  }
  TUTTI_ASSERT_CMP(n, <=, header_.size() - headerReceived_);
  headerReceived_ += n;
  if (headerReceived_ < header_.size()) return {};
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>(header_[at + i])} << (8 * i);
    return value;
  };
  length_ = number(0);
  if (number(4) != crc32c(header_.data(), 4))
    return remoteError(ErrorCode::Malformed,
                       "what came is no message of this version of Tutti, or was damaged on its way");
  if (length_ > maxBytes_)
    return remoteError(ErrorCode::Malformed, "a message of ", length_, " bytes was announced; the most is ", maxBytes_);
  haveHeader_ = true;
  received_ = 0;
  return {};
}

void FrameReader::next() {
  TUTTI_ASSERT(complete());
  haveHeader_ = false;
  headerReceived_ = 0;
  if (body_.capacity() > kKeepBytes) {
    body_.clear();
    body_.shrink_to_fit();
  }
}

void appendFrame(std::string* out, std::string_view message) {
  const size_t at = out->size();
  const auto append = [out](uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(number >> shift));
  };
  append(static_cast<uint32_t>(message.size()));
  append(crc32c(out->data() + at, 4));
  out->append(message);
}

}  // namespace tutti
