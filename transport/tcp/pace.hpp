// At which pace the kernel sends inside a host.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::tcp {

/// Where the system's congestion control is BBR, it keeps to the pace that it believes a wire to have, inside a host as
/// well.  Large messages then take twice as long as with Reno, which is part of every kernel and open to every user.
/// Rows of small ones take half as long, since the kernel sends several at a time.  So sockets inside a host go by what
/// is sent.  Nothing happens under another congestion control.  One thread at a time.
class Pace {
 public:
  /// fd: borrowed.  local: both ends are on this host.
  Pace(int fd, bool local);
  /// What the next message is.
  void expect(bool large) {
    if (system_.empty() || large == large_) {
      small_ = 0;
    } else if (large || ++small_ > kSmallInARow) {
      change(large);
    }
  }

 private:
  static constexpr int kSmallInARow = 64;
  void change(bool large);

  int fd_;
  std::string system_;  // empty: leave it alone
  bool large_ = false;
  int small_ = 0;
};

}  // namespace tutti::tcp
