#include "src/control/resumable_link.hpp"

#include <algorithm>

#include "src/control/rendezvous.hpp"
#include "src/control/wire.hpp"

namespace tutti {

namespace {

constexpr size_t kConfirmBytes = 256 << 10;

std::string countMessage(MessageType type, uint64_t count) {
  Writer w(type);
  w.u64(count);
  return w.take();
}

}  // namespace

void ResumableLink::send(const std::string& message) {
  kept_.push_back(message);
  if (!flows_) return;
  network_->send(link_, message);
  sent_ = confirmed_ + kept_.size();
}

void ResumableLink::beat() {
  if (link_ == 0 || !flows_) return;
  unconfirmedBytes_ = 0;
  network_->send(link_, countMessage(MessageType::Heartbeat, received_));
}

void ResumableLink::connect(LinkId link, bool first, const ControlAddress& self) {
  disconnect();
  link_ = link;
  Writer resume(MessageType::Resume);
  resume.u64(received_);
  resume.text(self);
  unconfirmedBytes_ = 0;
  network_->send(link_, resume.take());
  if (first) flow();
}

void ResumableLink::listen(LinkId link) {
  disconnect();
  link_ = link;
}

void ResumableLink::disconnect() {
  link_ = 0;
  flows_ = begun_ = false;
  repeats_ = 0;
}

/// The peer has `confirmed_` messages; those behind go out.
void ResumableLink::flow() {
  flows_ = true;
  resent_ += sent_ - std::min(sent_, confirmed_);
  for (const std::string& message : kept_) network_->send(link_, message);
  sent_ = confirmed_ + kept_.size();
}

/// False: the peer cannot have so many, or has had more.
bool ResumableLink::confirm(uint64_t has) {
  if (has < confirmed_ || has > sent_) return false;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(has - confirmed_));
  confirmed_ = has;
  return true;
}

ResumableLink::Came ResumableLink::onMessage(std::string_view message) {
  Reader in(message);
  const auto type = static_cast<MessageType>(in.u8());
  if (type == MessageType::Resume) return onResume(message);
  if (type == MessageType::Rest) return onRest(message);
  // Ranks that have left without a message for this one say nothing before their last words.
  const bool lastWords = type == MessageType::Failure || type == MessageType::Goodbye;
  if (!begun_) return lastWords ? Came::Message : Came::Nonsense;
  if (type == MessageType::Heartbeat) {
    const uint64_t has = in.u64();
    return in.done() && confirm(has) ? Came::Known : Came::Nonsense;
  }
  if (repeats_ > 0) {
    --repeats_;
    return Came::Known;
  }
  ++received_;
  unconfirmedBytes_ += message.size();
  if (unconfirmedBytes_ >= kConfirmBytes) beat();
  return Came::Message;
}

ResumableLink::Came ResumableLink::onResume(std::string_view message) {
  Reader in(message);
  (void)in.u8();
  const uint64_t has = in.u64();
  const std::string_view address = in.text(kMaxControlAddressBytes);
  if (!in.done() || begun_ || !confirm(has)) return Came::Nonsense;
  begun_ = true;
  peerAddress_ = address;
  if (!flows_) flow();
  return Came::Known;
}

ResumableLink::Came ResumableLink::onRest(std::string_view message) {
  Reader in(message);
  (void)in.u8();
  const uint64_t first = in.u64();
  if (!in.done() || begun_ || first > received_) return Came::Nonsense;
  begun_ = true;
  repeats_ = received_ - first;
  return Came::Known;
}

void ResumableLink::sendRest(LinkId link) const {
  network_->send(link, countMessage(MessageType::Rest, confirmed_));
  for (const std::string& message : kept_) network_->send(link, message);
}

}  // namespace tutti
