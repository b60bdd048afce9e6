#include "src/net_plugin/send_comm.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::net_plugin {

SendComm::~SendComm() {
  // A socket that is closed with unread bytes resets the connection, and the peer loses what was sent.
  if (failure().ok()) (void)hearGrants();
}

Result<Work*> SendComm::send(const void* data, size_t bytes, int tag) {
  Work* const none = nullptr;
  if (sends_.size() >= kMostRequests * kMostGrouped) return none;
  if (grants_.empty()) TUTTI_TRY(progress());
  TUTTI_TRY(failure());
  const std::optional<size_t> index = findTag(tag);
  if (!index) return none;
  Open& open = grants_.front();
  if (bytes > open.grant.bytes[*index]) {
    return invalidUsage(ErrorCode::MessagesDiffer, "isend of ", bytes, " bytes with tag ", tag,
                        ", for which the peer at ", link().peer(), " has posted ", open.grant.bytes[*index]);
  }
  Send& made = sends_.emplace_back(*this);
  made.head.grant = open.grant.number;
  made.head.index = static_cast<uint32_t>(*index);
  made.head.bytes = bytes;
  made.bytes[0] = bytes;
  made.data = static_cast<const std::byte*>(data);
  if (bytes > 0 && bytes <= Head::kMostBytes) std::memcpy(made.head.payload.data(), data, bytes);
  open.taken[*index] = true;
  if (--open.left == 0) grants_.pop_front();
  line_.push_back(&made);
  TUTTI_TRY(progress());
  return &made;
}

/// Of the oldest grant alone: groups are served one after the other.
std::optional<size_t> SendComm::findTag(int tag) const {
  if (grants_.empty()) return std::nullopt;
  const Open& open = grants_.front();
  for (size_t i = 0; i < open.grant.n; ++i) {
    if (!open.taken[i] && open.grant.tags[i] == tag) return i;
  }
  return std::nullopt;
}

Status SendComm::hearGrants() {
  for (;;) {
    TUTTI_ASSIGN(const bool there, link().take(&coming_, sizeof coming_));
    if (!there) return {};
    if (coming_.n < 1 || coming_.n > kMostGrouped || grants_.size() >= kMostRequests)
      return remoteError(ErrorCode::Malformed, "rank 1 speaks another protocol");
    grants_.push_back({coming_, {}, coming_.n});
  }
}

/// False: there is no room for all of it.
Result<bool> SendComm::begin(Send* send) {
  if (!send->headBegun) {
    TUTTI_ASSIGN(const Link::Passing head, link().send(&send->head, sizeof send->head));
    if (!head.begun) return false;
    send->headBegun = true;
    send->passing.push_back(head);
  }
  const size_t payload = send->head.bytes <= Head::kMostBytes ? 0 : send->head.bytes;
  while (send->begun < payload) {
    const size_t bytes = std::min(link().pieceBytes(), payload - send->begun);
    TUTTI_ASSIGN(const Link::Passing piece, link().send(send->data + send->begun, bytes));
    if (!piece.begun) return false;
    send->begun += bytes;
    send->passing.push_back(piece);
  }
  return true;
}

Status SendComm::test(Send* send) {
  while (!send->passing.empty()) {
    TUTTI_ASSIGN(const bool gone, link().done(send->passing.front()));
    if (!gone) return {};
    send->passing.pop_front();
  }
  send->done = std::ranges::find(line_, send) == line_.end();
  return {};
}

// Sends first: what they had to wait for may be the last that a peer did before it closed.
Status SendComm::advance() {
  while (!line_.empty()) {
    TUTTI_ASSIGN(const bool all, begin(line_.front()));
    if (!all) break;
    line_.pop_front();
  }
  for (Send& send : sends_) {
    if (!send.done) TUTTI_TRY(test(&send));
    if (!send.done) break;
  }
  return hearGrants();
}

void SendComm::forget(Work* work) {
  sends_.remove_if([&](const Send& send) { return &send == work; });
}

}  // namespace tutti::net_plugin
