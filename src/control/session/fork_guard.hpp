// Descriptors that a forked child must not keep.
//
// CLOEXEC closes them at exec; a child that only forks (a worker of a data loader) would keep the sockets, and then the
// death of the parent would close no connection and nobody would notice it.
#pragma once

#include "src/base/fd.hpp"

namespace tutti {

/// An Fd that is closed in every child that fork() makes.  In such a child the object itself must not be used or
/// destroyed any more.
class OwnFd {
 public:
  OwnFd() = default;
  explicit OwnFd(Fd fd);
  OwnFd(OwnFd&& other) noexcept = default;
  OwnFd& operator=(OwnFd&& other) noexcept;
  ~OwnFd();

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void reset();
  /// Give it away; from now on forked children inherit it.
  Fd release();

 private:
  Fd fd_;
};

}  // namespace tutti
