// Two ranks over shm in one test: their transports and the endpoints of lane 0.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/transport/local_exchange.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::test {

enum class Ends { Threads, Processes };  // Processes: the two ranks believe that they are not of one process

struct ShmPair {
  explicit ShmPair(Ends ends = Ends::Threads, size_t slots = 4, size_t slotBytes = 1000, bool cma = true,
                   bool sharedCores = false) {
    for (int rank = 0; rank < 2; ++rank) {
      ShmConfig config;
      config.self.rank = rank;
      config.self.processId = ends == Ends::Threads ? 1 : static_cast<uint64_t>(rank) + 1;
      config.nRanks = 2;
      config.lanes = 3;
      config.slots = static_cast<int64_t>(slots);
      config.slotBytes = static_cast<int64_t>(slotBytes);
      config.cma = cma;
      config.sharedCores = sharedCores;
      auto made = createShmTransport(config, exchange);
      REQUIRE(made.status().message() == "");
      transport[rank] = std::move(*made);
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto made = awaitEndpoint(*transport[rank], 1 - rank, transport[1 - rank]->address(), 0, Deadline::inMs(1000));
      REQUIRE(made.status().message() == "");
      endpoint[rank] = std::move(*made);
    }
  }
  Endpoint& a() { return *endpoint[0]; }
  Endpoint& b() { return *endpoint[1]; }

  LocalExchange exchange;
  std::unique_ptr<Transport> transport[2];
  std::unique_ptr<Endpoint> endpoint[2];
};

inline std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> v(bytes);
  for (size_t i = 0; i < bytes; ++i) v[i] = static_cast<std::byte>((i * 131 + seed * 29 + (i >> 8)) & 0xff);
  return v;
}

inline Fingerprint callNumber(uint64_t n) {
  return makeFingerprint({.sequence = static_cast<uint32_t>(n), .kind = kKindPointToPoint, .count = n});
}

// Sends one message and receives it at the other end; "" or what was wrong.
inline std::string passOne(Endpoint& from, Endpoint& to, const std::byte* data, size_t bytes, uint64_t n, bool peek) {
  auto sent = from.send(data, bytes, callNumber(n));
  if (!sent.ok() || !*sent) return cat("send ", n, ": ", sent.status().message());
  const Expect expect{bytes, callNumber(n)};
  if (peek) {
    auto got = to.peek(expect);
    if (!got.ok() || *got == nullptr) return cat("peek ", n, ": ", got.status().message());
    if (bytes != 0 && std::memcmp(*got, data, bytes) != 0) return cat("peek ", n, ": wrong bytes");
    to.release();
    return "";
  }
  // A frame around the destination: nothing but [1, bytes] may be written.
  std::vector<std::byte> dst(bytes + 2, std::byte{0x5a});
  auto got = to.receive(dst.data() + 1, expect);
  if (!got.ok() || !*got) return cat("receive ", n, ": ", got.status().message());
  if (dst.front() != std::byte{0x5a} || dst.back() != std::byte{0x5a}) return cat("receive ", n, ": wrote outside");
  if (bytes != 0 && std::memcmp(dst.data() + 1, data, bytes) != 0) return cat("receive ", n, ": wrong bytes");
  return "";
}

}  // namespace tutti::test
