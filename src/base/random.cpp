#include "src/base/random.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/base/forked.hpp"
#include "src/base/sha256.hpp"

namespace tutti {
namespace {

/// Calls `get(at, bytes)` until `out` is full.  Errors: errno of one that failed.
template <class Get>
int fill(std::span<std::byte> out, Get get) {
  while (!out.empty()) {
    const ssize_t n = get(out.data(), out.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    out = out.subspan(static_cast<size_t>(n));
  }
  return 0;
}

/// 0, or errno of getrandom, which filters of system calls may refuse, when /dev/urandom is not to be had either.
int fromSystem(std::span<std::byte> out) {
  const int refused = fill(out, [](void* at, size_t bytes) { return getrandom(at, bytes, 0); });
  if (refused == 0) return 0;
  const Fd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  if (!device.valid()) return refused;
  return fill(out, [&](void* at, size_t bytes) { return ::read(device.get(), at, bytes); }) == 0 ? 0 : refused;
}

/// Random bytes that the system gave earlier.  Later ones are an HMAC of a counter under them, if the system fails.
struct Seed {
  ProcessMutex mutex;
  std::optional<Digest> key;  // under mutex
  uint64_t counter = 0;       // under mutex

  static Seed& instance() {
    static auto* const seed = new Seed;
    return *seed;
  }
};

std::string_view asText(const void* data, size_t bytes) { return {static_cast<const char*>(data), bytes}; }

}  // namespace

Status seedRandom() {
  Seed& seed = Seed::instance();
  const std::lock_guard lock(seed.mutex);
  if (seed.key) return {};
  Digest key;
  const int refused = fromSystem(std::as_writable_bytes(std::span(key)));
  if (refused != 0) {
    return errnoError(ErrorCode::NoRandomBytes, refused,
                      "the system gives no random bytes, by neither getrandom nor /dev/urandom, and secrets "
                      "are made of them; does a filter of system calls forbid both?");
  }
  seed.key = key;
  return {};
}

void fillRandom(std::span<std::byte> out) {
  if (fromSystem(out) == 0) return;
  Seed& seed = Seed::instance();
  const std::lock_guard lock(seed.mutex);
  TUTTI_ASSERT(seed.key.has_value());  // seedRandom() has succeeded
  for (size_t done = 0; done < out.size();) {
    // A forked child has its parent's key and counter.
    const int64_t parts[] = {static_cast<int64_t>(++seed.counter), ::getpid(), static_cast<int64_t>(forkGeneration()),
                             nowNs()};
    const Digest block = hmacSha256(asText(seed.key->data(), seed.key->size()), asText(parts, sizeof parts));
    const size_t bytes = std::min(block.size(), out.size() - done);
    std::memcpy(out.data() + done, block.data(), bytes);
    done += bytes;
  }
}

}  // namespace tutti
