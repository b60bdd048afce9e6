#include "transport/tcp/channel.hpp"

#include "src/base/log.hpp"

namespace tutti::tcp {

TcpChannel::TcpChannel(int peer, int lane, std::vector<Fd> fds, size_t slotBytes, std::shared_ptr<TcpSleeper> sleeper,
                       std::shared_ptr<EmptyLooks> looks)
    : slotBytes_(slotBytes),
      looks_(std::move(looks)),
      sockets_(peer, lane, std::move(fds)),
      outgoing_(sockets_, slotBytes, *looks_),
      incoming_(sockets_, slotBytes),
      sleeper_(std::move(sleeper)) {
  for (int i = 0; sleeper_ != nullptr && i < sockets_.count(); ++i) sleeper_->add(sockets_.fd(i));
}

TcpChannel::~TcpChannel() {
  for (int i = 0; sleeper_ != nullptr && i < sockets_.count(); ++i) sleeper_->remove(sockets_.fd(i));
}

Result<bool> TcpChannel::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  return remember(outgoing_.send(data, {bytes, call}));
}

Result<std::span<std::byte>> TcpChannel::reserve() {
  if (!failure_.ok()) return failure_;
  return outgoing_.staging();
}

Result<bool> TcpChannel::commit(size_t bytes, const Fingerprint& call) {
  if (!failure_.ok()) return failure_;
  return remember(outgoing_.commit({bytes, call}));
}

Result<const std::byte*> TcpChannel::peek(const Expect& expect) {
  if (!failure_.ok()) return failure_;
  Result<const std::byte*> message = remember(incoming_.peek(expect, &seen_));
  if (message.ok() && *message == nullptr) looks_->fetch_add(1, std::memory_order_relaxed);
  return message;
}

Result<bool> TcpChannel::receive(std::byte* dst, const Expect& expect) {
  if (!failure_.ok()) return failure_;
  Result<bool> came = remember(incoming_.receive(dst, expect, &seen_));
  if (came.ok() && !*came) looks_->fetch_add(1, std::memory_order_relaxed);
  return came;
}

Result<bool> TcpChannel::progress() {
  if (!failure_.ok()) return failure_;
  Result<bool> wrote = remember(outgoing_.push());
  if (!wrote.ok()) return wrote;
  incoming_.hurry();
  Result<bool> got = remember(incoming_.drain());
  if (!got.ok()) return got;
  return *wrote || *got;
}

template <class T>
Result<T> TcpChannel::remember(Result<T> result) {
  if (!result.ok()) {
    failure_ = result.status();
    TUTTI_INFO("tcp", failure_.message());
  }
  return result;
}

}  // namespace tutti::tcp
