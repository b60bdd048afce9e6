#include "transport/request_line.hpp"

namespace tutti {

Result<bool> RequestLine::test(Channel& channel, Request request) {
  if (isDone(request)) return true;
  if (failure_.ok()) failure_ = advance(channel);
  if (isDone(request)) return true;
  TUTTI_TRY(failure_);
  return false;
}

// Receives first: what a peer has sent before it failed counts.
Status RequestLine::advance(Channel& channel) {
  for (; !receives_.empty(); receives_.pop_front(), ++received_) {
    TUTTI_ASSIGN(const bool came, channel.receive(receives_.front().dst, receives_.front().expect));
    if (!came) break;
  }
  for (; !sends_.empty(); sends_.pop_front(), ++sent_) {
    const Outgoing& next = sends_.front();
    TUTTI_ASSIGN(const bool gone, channel.send(next.data, next.bytes, next.call));
    if (!gone) break;
  }
  return {};
}

void RequestLine::cancel() {
  if (failure_.ok()) failure_ = invalidUsage("the requests of this channel have been cancelled");
  sends_.clear();
  receives_.clear();
}

bool Channel::lineHasSends() const { return line_->hasSends(); }

RequestLine& Channel::line() {
  if (line_ == nullptr) line_ = std::make_shared<RequestLine>();
  return *line_;
}

Result<Request> Channel::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  return line().postSend(data, bytes, call);
}

Result<Request> Channel::postReceive(std::byte* dst, const Expect& expect) { return line().postReceive(dst, expect); }

Result<bool> Channel::test(Request request) { return line().test(*this, request); }

void Channel::cancel() {
  if (line_ != nullptr) line_->cancel();
}

}  // namespace tutti
