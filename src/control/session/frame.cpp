#include "src/control/session/frame.hpp"

#include <algorithm>
#include <cstdint>

#include "src/base/assert.hpp"

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
  length_ = 0;
  for (size_t i = 0; i < header_.size(); ++i) {
    length_ |= size_t{static_cast<unsigned char>(header_[i])} << (8 * i);
  }
  if (length_ > maxBytes_)
    return remoteError("a message of ", length_, " bytes was announced; the most is ", maxBytes_);
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
  const auto length = static_cast<uint32_t>(message.size());
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(length >> shift));
  out->append(message);
}

}  // namespace tutti
