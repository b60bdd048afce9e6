#include "src/exec/thread_time.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "src/base/fd.hpp"

namespace tutti {

std::optional<ThreadTime> timeOfThread() {
  const Fd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));  // a stream would take memory in a call
  std::array<char, 128> text = {};
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  long long ran = 0, delay = 0, turns = 0;
  if (std::sscanf(text.data(), "%lld %lld %lld", &ran, &delay, &turns) != 3) return std::nullopt;
  return ThreadTime{ran, delay, turns};
}

}  // namespace tutti
