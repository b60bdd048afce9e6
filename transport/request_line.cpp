#include "transport/request_line.hpp"

namespace tutti {

Result<bool> RequestLine::test(Endpoint& endpoint, Request request) {
  if (isDone(request)) return true;
  if (failure_.ok()) failure_ = advance(endpoint);
  if (isDone(request)) return true;
  TUTTI_TRY(failure_);
  return false;
}

// Receives first: what a peer has sent before it failed counts.
Status RequestLine::advance(Endpoint& endpoint) {
  for (; !receives_.empty(); receives_.pop_front(), ++received_) {
    TUTTI_ASSIGN(const bool came, endpoint.receive(receives_.front().dst, receives_.front().expect));
    if (!came) break;
  }
  for (; !sends_.empty(); sends_.pop_front(), ++sent_) {
    const Outgoing& next = sends_.front();
    TUTTI_ASSIGN(const bool gone, endpoint.send(next.data, next.bytes, next.call));
    if (!gone) break;
  }
  return {};
}

void RequestLine::cancel() {
  if (failure_.ok()) failure_ = invalidUsage(ErrorCode::Finalized, "the requests of this endpoint have been cancelled");
  sends_.clear();
  receives_.clear();
}

bool Endpoint::lineHasSends() const { return line_->hasSends(); }

RequestLine& Endpoint::line() {
  if (line_ == nullptr) line_ = std::make_shared<RequestLine>();
  return *line_;
}

Result<Request> Endpoint::postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
  return line().postSend(data, bytes, call);
}

Result<Request> Endpoint::postReceive(std::byte* dst, const Expect& expect) { return line().postReceive(dst, expect); }

Result<bool> Endpoint::test(Request request) { return line().test(*this, request); }

void Endpoint::cancel() {
  if (line_ != nullptr) line_->cancel();
}

}  // namespace tutti
