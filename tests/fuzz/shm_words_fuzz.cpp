// Fuzzes what a peer may write into shared memory: its segment is whatever the input says, while this rank sends and
// receives.  Nothing may crash, or read outside of the segment.
//
// The input: operations of this rank, and between them writes of the peer, each an offset and some bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/fuzz/require.hpp"
#include "tests/unit/transport/local_exchange.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/shm_transport.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kBytes = 4096;

/// Remembers what was served last, for the peer's writes.
class Exchange final : public FdExchange {
 public:
  Status serve(const std::string& key, int fd) override {
    last = fd;
    return inner.serve(key, fd);
  }
  void unserve(const std::string& key) override { inner.unserve(key); }
  PendingFd fetch(int peer, const std::string& key) override { return inner.fetch(peer, key); }
  int last = -1;

 private:
  LocalExchange inner;
};

struct Pair {
  Exchange exchange;
  std::unique_ptr<Transport> transport[2];
  std::unique_ptr<Endpoint> endpoint[2];
  std::byte* segments[2];  // mapped once more
  size_t bytes = 0;

  Pair() {
    for (int rank = 0; rank < 2; ++rank) {
      ShmConfig config;
      config.self.rank = rank;
      config.self.processId = static_cast<uint64_t>(rank) + 1;
      config.self.pid = ::getpid();
      config.nRanks = 2;
      config.lanes = 1;
      config.slots = 2;
      config.slotBytes = kBytes;
      config.cma = false;
      transport[rank] = std::move(*createShmTransport(config, exchange));
      bytes = static_cast<size_t>(::lseek(exchange.last, 0, SEEK_END));
      void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, exchange.last, 0);
      if (mapped == MAP_FAILED) std::abort();
      segments[rank] = static_cast<std::byte*>(mapped);
    }
    for (int rank = 0; rank < 2; ++rank) {
      endpoint[rank] = std::move(
          *awaitEndpoint(*transport[rank], 1 - rank, transport[1 - rank]->address(), 0, Deadline::inMs(1000)));
    }
  }
  ~Pair() {
    for (auto& one : endpoint) one.reset();
    for (auto& one : transport) one.reset();
    for (std::byte* segment : segments) ::munmap(segment, bytes);
  }
};

/// Reads what can be seen of the next message, which is over if that is all of it.
void read(Endpoint& endpoint, const Expect& expect, bool inParts) {
  std::span<const std::byte> seen;
  if (inParts) {
    if (const auto part = endpoint.peekPart(expect); part.ok()) seen = *part;
  } else if (const auto whole = endpoint.peek(expect); whole.ok() && *whole != nullptr) {
    seen = {*whole, expect.bytes};
  }
  require(seen.size() <= expect.bytes);
  unsigned sum = 0;
  for (const std::byte b : seen) sum += static_cast<unsigned>(b);
  if (sum == 1) (void)!::write(-1, &sum, 0);  // it is read, whatever the compiler thinks of it
  if (seen.data() != nullptr && seen.size() == expect.bytes) endpoint.release();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Pair pair;
  Endpoint& mine = *pair.endpoint[0];
  std::vector<std::byte> memory(2 * kBytes, std::byte{1});
  const auto next = [&]() -> size_t {
    if (size == 0) return 0;
    --size;
    return *data++;
  };
  while (size > 0) {
    const size_t what = next();
    const size_t bytes = next() * 33 % (kBytes + 1);
    const Expect expect{bytes, makeFingerprint({.sequence = static_cast<uint32_t>(what), .count = bytes})};
    switch (what % 8) {
      case 0: (void)mine.send(memory.data(), bytes, expect.call); break;
      case 1: (void)mine.receive(memory.data() + kBytes, expect); break;
      case 2: read(mine, expect, what % 16 == 2); break;
      case 3: (void)pair.transport[0]->progress(); break;
      case 4: (void)mine.pending(); break;
      case 5: (void)pair.endpoint[1]->send(memory.data(), bytes, expect.call); break;  // an honest message
      default: {                                                                       // the peer writes
        const size_t at = (next() << 16 | next() << 8 | next()) % pair.bytes;
        const size_t n = std::min({size, pair.bytes - at, size_t{16}});
        std::memcpy(pair.segments[what % 2] + at, data, n);
        data += n;
        size -= n;
      }
    }
  }
  mine.cancel();
  return 0;
}
