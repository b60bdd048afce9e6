// What the targets of endpoints have in common: the calls that a rank makes of its end as the input says, the memory
// that these may fill, and the stream by which the peer speaks beside them.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "src/base/fd.hpp"
#include "src/collective/fingerprint.hpp"
#include "tests/fuzz/input.hpp"
#include "transport/transport.hpp"

namespace tutti::test {

/// Fills memory that nothing may have written to.
constexpr std::byte kGuard{0x5a};

struct Stream {
  Fd rank, peer;
};

inline Stream openStream() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Sends a plain value with some bytes changed, at times cut short.
template <class T>
void sendSpoiled(Input* input, T meant, int fd) {
  input->spoil(&meant);
  const size_t bytes = input->byte() < 200 ? sizeof meant : input->byte() % sizeof meant;
  (void)::send(fd, &meant, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

class EndpointUse {
 public:
  static constexpr unsigned kCalls = 7;

  static const Fingerprint& call() {
    static const Fingerprint made = makeFingerprint({.sequence = 1, .count = 3});
    return made;
  }

  /// from, into: as long as the longest message at least; `into` full of guards.
  EndpointUse(Endpoint* endpoint, std::span<const std::byte> from, std::span<std::byte> into)
      : endpoint_(*endpoint), from_(from), into_(into) {}

  /// which: below kCalls.
  void make(unsigned which, size_t bytes, Input* input) {
    const Expect expect{bytes, call()};
    switch (which) {
      case 0: (void)endpoint_.send(from_.data(), bytes, call()); break;
      case 1: (void)endpoint_.receive(fillable(bytes), expect); break;
      case 2: look(expect); break;
      case 3: keep(endpoint_.postSend(from_.data(), bytes, call())); break;
      case 4: keep(endpoint_.postReceive(fillable(bytes), expect)); break;
      case 5:
        if (!requests_.empty()) (void)endpoint_.test(requests_[input->byte() % requests_.size()]);
        break;
      default: (void)endpoint_.pending();
    }
  }

  /// Aborts if anything lies behind what messages may have filled.
  void checkGuards() const {
    if (std::ranges::any_of(into_.subspan(filled_), [](std::byte b) { return b != kGuard; })) std::abort();
  }

 private:
  std::byte* fillable(size_t bytes) {
    filled_ = std::max(filled_, bytes);
    return into_.data();
  }
  void look(const Expect& expect) {
    const auto seen = endpoint_.peek(expect);
    if (seen.ok() && *seen != nullptr) read_.assign(*seen, *seen + expect.bytes);  // a sanitizer looks at each byte
    endpoint_.release();
  }
  void keep(const Result<Request>& posted) {
    if (posted.ok() && *posted != 0) requests_.push_back(*posted);
  }

  Endpoint& endpoint_;
  const std::span<const std::byte> from_;
  const std::span<std::byte> into_;
  size_t filled_ = 0;
  std::vector<Request> requests_;
  std::vector<std::byte> read_;
};

}  // namespace tutti::test
