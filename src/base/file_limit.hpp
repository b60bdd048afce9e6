// Files that may not grow: RLIMIT_FSIZE, whose signal would end the process without a word.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace tutti {

/// While it lives, what this thread lets grow beyond the limit fails with EFBIG, and nothing more happens.
class FileLimitAsError {
 public:
  FileLimitAsError() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    sigset_t pending;
    sigpending(&pending);
    wasPending_ = sigismember(&pending, SIGXFSZ) == 1;
  }
  FileLimitAsError(const FileLimitAsError&) = delete;
  FileLimitAsError& operator=(const FileLimitAsError&) = delete;
  ~FileLimitAsError() {
    constexpr timespec kAtOnce{0, 0};
    if (!wasPending_) sigtimedwait(&signal_, nullptr, &kAtOnce);  // this thread's own
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_, before_;
  bool wasPending_;
};

}  // namespace tutti
