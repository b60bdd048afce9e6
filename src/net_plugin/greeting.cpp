#include "src/net_plugin/greeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::net_plugin {
namespace {

constexpr size_t kLengthBytes = 2;

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// Whether a connection has come up; its error.
Result<bool> connected(int fd) {
  pollfd entry = {fd, POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return remoteError(ErrorCode::CannotReach, "cannot connect: ", std::strerror(error));
  return true;
}

}  // namespace

void Mail::send(const std::string& message) {
  out_ += static_cast<char>(message.size() & 0xff);
  out_ += static_cast<char>(message.size() >> 8);
  out_ += message;
}

Result<bool> Mail::flush() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && again(errno)) return false;
    if (n <= 0)
      return remoteError(ErrorCode::PeerClosed, "it has gone while a connection came up: ", std::strerror(errno));
    out_.erase(0, static_cast<size_t>(n));
  }
  return true;
}

Result<std::optional<std::string>> Mail::receive() {
  for (;;) {
    size_t want = kLengthBytes;
    if (in_.size() >= kLengthBytes) {
      const size_t bytes = static_cast<unsigned char>(in_[0]) | size_t{static_cast<unsigned char>(in_[1])} << 8;
      if (bytes > kMostBytes) return remoteError(ErrorCode::Malformed, "it speaks another protocol");
      want += bytes;
      if (in_.size() == want) return std::optional(std::exchange(in_, "").substr(kLengthBytes));
    }
    char part[kMostBytes + kLengthBytes];
    const ssize_t n = ::recv(fd_.get(), part, want - in_.size(), MSG_DONTWAIT);
    if (n < 0 && again(errno)) return std::optional<std::string>();
    if (n <= 0)
      return remoteError(ErrorCode::PeerClosed, "it has gone while a connection came up", n < 0 ? ": " : "",
                         n < 0 ? std::strerror(errno) : "");
    in_.append(part, static_cast<size_t>(n));
  }
}

DialerGreeting::DialerGreeting(Fd fd, const Secret& secret, const Hello& hello, const Nonce& nonce)
    : mail_(std::move(fd)), proof_(secret, hello, nonce) {}

Result<bool> DialerGreeting::poll() {
  if (phase_ == Phase::Connecting) {
    TUTTI_ASSIGN(const bool up, connected(mail_.fd().get()));
    if (!up) return false;
    mail_.send(proof_.hello());
    phase_ = Phase::AwaitChallenge;
  }
  TUTTI_TRY(asStatus(mail_.flush()));
  if (phase_ == Phase::AwaitChallenge) {
    TUTTI_ASSIGN(const std::optional<std::string> challenge, mail_.receive());
    if (!challenge) return false;
    TUTTI_ASSIGN(const std::string answer, proof_.onChallenge(*challenge));
    mail_.send(answer);
    phase_ = Phase::AwaitAccepted;
    TUTTI_TRY(asStatus(mail_.flush()));
  }
  if (phase_ == Phase::AwaitAccepted) {
    TUTTI_ASSIGN(const std::optional<std::string> accepted, mail_.receive());
    if (!accepted) return false;
    TUTTI_TRY(proof_.onAccepted(*accepted));
    phase_ = Phase::Done;
  }
  return true;
}

Result<bool> AcceptorGreeting::poll() {
  if (phase_ == Phase::AwaitHello) {
    TUTTI_ASSIGN(const std::optional<std::string> message, mail_.receive());
    if (!message) return false;
    TUTTI_ASSIGN(hello_, AcceptorProof::readHello(*message));
    proof_.emplace(secret_, *message, nonce_);
    mail_.send(proof_->challenge());
    phase_ = Phase::AwaitProof;
  }
  TUTTI_TRY(asStatus(mail_.flush()));
  if (phase_ == Phase::AwaitProof) {
    TUTTI_ASSIGN(const std::optional<std::string> message, mail_.receive());
    if (!message) return false;
    TUTTI_ASSIGN(const std::string accepted, proof_->onProof(*message));
    mail_.send(accepted);
    phase_ = Phase::Flushing;
  }
  if (phase_ == Phase::Flushing) {
    TUTTI_ASSIGN(const bool gone, mail_.flush());
    if (!gone) return false;
    phase_ = Phase::Done;
  }
  return true;
}

}  // namespace tutti::net_plugin
