#include "src/net_plugin/link.hpp"

#include "src/net_plugin/protocol.hpp"

namespace tutti::net_plugin {
namespace {

constexpr int kOther = 1;
constexpr int kLane = 0;

}  // namespace

PendingFd Link::Streams::open(int, StreamIndex index) {
  return pendingBy<Fd>([this, index]() -> Result<Fd> { return std::move(fds_[static_cast<size_t>(index)]); });
}

Result<std::unique_ptr<Link>> Link::begin(const Handle& handle, Sockets sockets) {
  std::unique_ptr<Link> link(new Link(std::move(sockets.peer), std::move(sockets.fds)));
  TUTTI_ASSIGN(link->transport_, makeTransport(handle, link->streams_));
  link->opening_ = link->transport_->beginConnect(kOther, peerAddress(handle, *link->transport_), kLane);
  return link;
}

Result<bool> Link::up() {
  if (endpoint_ != nullptr) return true;
  TUTTI_ASSIGN(endpoint_, opening_->poll());
  return endpoint_ != nullptr;
}

Result<std::unique_ptr<MemoryRegistration>> Link::registerMemory(void* data, size_t bytes) {
  return transport_->registerMemory({MemoryKind::Host, -1, static_cast<std::byte*>(data), bytes});
}

// Requests are faster than polled messages: several leave in one system call, and adapters read them where they lie.
Result<Link::Passing> Link::send(const void* data, size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(data);
  if (bytes > 0 && endpoint_->takes(from, bytes)) {
    TUTTI_ASSIGN(const Request request, endpoint_->postSend(from, bytes, ofNoCall()));
    return Passing{request != 0, request};
  }
  TUTTI_ASSIGN(const bool gone, endpoint_->send(from, bytes, ofNoCall()));
  return Passing{gone, 0};
}

Result<Link::Passing> Link::receive(void* into, size_t bytes) {
  auto* const to = static_cast<std::byte*>(into);
  const Expect expect{.bytes = bytes, .call = ofNoCall()};
  if (bytes > 0 && endpoint_->takes(to, bytes)) {
    TUTTI_ASSIGN(const Request request, endpoint_->postReceive(to, expect));
    return Passing{request != 0, request};
  }
  TUTTI_ASSIGN(const bool there, endpoint_->receive(to, expect));
  return Passing{there, 0};
}

Result<bool> Link::done(const Passing& passing) {
  if (passing.request == 0) return true;
  return endpoint_->test(passing.request);
}

// Polled, as small messages are read ahead then.
Result<bool> Link::take(void* into, size_t bytes) {
  return endpoint_->receive(static_cast<std::byte*>(into), {.bytes = bytes, .call = ofNoCall()});
}

}  // namespace tutti::net_plugin
