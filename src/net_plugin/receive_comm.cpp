#include "src/net_plugin/receive_comm.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::net_plugin {

Result<Work*> ReceiveComm::receive(std::span<const Buffer> buffers) {
  TUTTI_TRY(failure());
  if (receives_.size() >= kMostRequests) return static_cast<Work*>(nullptr);
  Receive& made = receives_.emplace_back(*this);
  made.n = made.left = buffers.size();
  made.grant.number = ++granted_;
  made.grant.n = static_cast<uint32_t>(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    made.grant.tags[i] = buffers[i].tag;
    made.grant.bytes[i] = buffers[i].bytes;
    made.data[i] = static_cast<std::byte*>(buffers[i].data);
  }
  untold_.push_back(&made);
  TUTTI_TRY(progress());
  return &made;
}

Status ReceiveComm::advance() {
  TUTTI_TRY(grant());
  for (;;) {
    if (into_ == nullptr) TUTTI_TRY(takeHead());
    if (into_ == nullptr) return {};
    TUTTI_ASSIGN(const bool all, takePayload());
    if (!all) return {};
    arrived();
  }
}

Status ReceiveComm::grant() {
  while (!untold_.empty()) {
    Receive& next = *untold_.front();
    TUTTI_ASSIGN(next.told, link().send(&next.grant, sizeof next.grant));
    if (!next.told.begun) return {};
    TUTTI_TRY(asStatus(link().done(next.told)));  // what is posted leaves when it is looked at
    untold_.pop_front();
  }
  return {};
}

Status ReceiveComm::takeHead() {
  const bool waits = std::ranges::any_of(receives_, [](const Receive& receive) { return receive.left > 0; });
  if (!waits) return {};
  TUTTI_ASSIGN(const bool there, link().take(&head_, sizeof head_));
  if (!there) return {};
  const auto meant = std::ranges::find_if(receives_, [&](const Receive& r) { return r.grant.number == head_.grant; });
  const bool right = meant != receives_.end() && head_.index < meant->n && !meant->came[head_.index] &&
                     head_.bytes <= meant->grant.bytes[head_.index];
  if (!right) return remoteError(ErrorCode::Malformed, "rank 1 speaks another protocol");
  into_ = &*meant;
  begun_ = 0;
  return {};
}

/// True once all is there.
Result<bool> ReceiveComm::takePayload() {
  std::byte* const data = into_->data[head_.index];
  if (head_.bytes <= Head::kMostBytes) {
    if (head_.bytes > 0) std::memcpy(data, head_.payload.data(), head_.bytes);
    return true;
  }
  while (begun_ < head_.bytes) {
    const size_t bytes = std::min<size_t>(link().pieceBytes(), head_.bytes - begun_);
    TUTTI_ASSIGN(const Link::Passing piece, link().receive(data + begun_, bytes));
    if (!piece.begun) break;
    begun_ += bytes;
    passing_.push_back(piece);
  }
  while (!passing_.empty()) {
    TUTTI_ASSIGN(const bool there, link().done(passing_.front()));
    if (!there) return false;
    passing_.pop_front();
  }
  return begun_ == head_.bytes;
}

void ReceiveComm::arrived() {
  into_->came[head_.index] = true;
  into_->bytes[head_.index] = head_.bytes;
  into_->done = --into_->left == 0;
  into_ = nullptr;
}

void ReceiveComm::forget(Work* work) {
  receives_.remove_if([&](const Receive& receive) { return &receive == work; });
}

}  // namespace tutti::net_plugin
