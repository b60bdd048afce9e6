// System calls that a signal may cut short.
#pragma once

#include <sys/types.h>

#include <cerrno>

namespace tutti::tcp {

/// The result of a system call that no signal has cut short.
template <class Call>
ssize_t retried(Call call) {
  ssize_t n = call();
  while (n < 0 && errno == EINTR) n = call();
  return n;
}

}  // namespace tutti::tcp
