// A record that a connection's end has cut, and its rest on the next one: the part of ResumableStream that gets on even
// where no connection lasts for a whole record.
#include <cstring>

#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp {

/// What has come of a record is kept for the next connection, unless it may be what is wrong.
void ResumableStream::keepCut() {
  if (spoiled_) {
    cut_.clear();
  } else if (straight_.active) {
    endStraight();
  }
  straight_.active = false;
  // Of a head alone nobody knows yet whether it is a record that is kept.
  if (!spoiled_ && end_ - parsed_ >= headBytes_) cut_.assign(in_.get() + parsed_, in_.get() + end_);
  end_ = parsed_;
  spoiled_ = false;
}

/// Puts what was kept of a record before the rest of it.
Status ResumableStream::join(const Parsed& rest) {
  if (rest.position != received_ || rest.bytes != cut_.size() || cut_.empty()) {
    return remoteError(ErrorCode::Malformed, "the rest of a record at byte ", rest.position, " behind its first ",
                       rest.bytes, " bytes came where byte ", received_, " was to come, and ", cut_.size(),
                       " bytes are here");
  }
  makeRoom(cut_.size());
  if (capacity_ - end_ < cut_.size())
    return remoteError(ErrorCode::Malformed, "it has sent more than there is room for");
  std::byte* const at = in_.get() + parsed_;
  std::memmove(at + cut_.size(), at, end_ - parsed_);
  std::memcpy(at, cut_.data(), cut_.size());
  end_ += cut_.size();
  cut_.clear();
  return {};
}

}  // namespace tutti::tcp
