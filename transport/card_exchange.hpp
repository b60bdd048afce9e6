// How both ends of an endpoint that comes up tell each other what they need: a card each, through a stream.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

#include "src/base/status.hpp"

namespace tutti {

/// Card: plain, and the same at both ends.
template <class Card>
class CardExchange {
 public:
  enum class State { UnderWay, Done, Lost };

  /// Goes on; never blocks.  mine: the same in every call.  Lost: the peer has gone.
  State poll(int stream, const Card& mine) {
    while (sent_ < sizeof(Card)) {
      const auto* const from = reinterpret_cast<const std::byte*>(&mine);
      const ssize_t n = send(stream, from + sent_, sizeof(Card) - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n <= 0) return waitOr(n);
      sent_ += static_cast<size_t>(n);
    }
    while (got_ < sizeof(Card)) {
      auto* const into = reinterpret_cast<std::byte*>(&theirs_);
      const ssize_t n = recv(stream, into + got_, sizeof(Card) - got_, MSG_DONTWAIT);
      if (n <= 0) return waitOr(n);
      got_ += static_cast<size_t>(n);
    }
    return State::Done;
  }
  /// Once done.
  Card& theirs() { return theirs_; }

 private:
  static State waitOr(ssize_t n) {
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? State::UnderWay : State::Lost;
  }

  Card theirs_{};
  size_t sent_ = 0, got_ = 0;
};

}  // namespace tutti
