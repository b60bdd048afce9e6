// A system that gives no threads, for the length of a test.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace tutti::test {

/// While this lives, threads begin with a stack that no address space has room for: the system refuses them.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t endless;
    pthread_getattr_default_np(&before_);
    pthread_getattr_default_np(&endless);
    pthread_attr_setstacksize(&endless, size_t{1} << 60);
    pthread_setattr_default_np(&endless);
    pthread_attr_destroy(&endless);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace tutti::test
