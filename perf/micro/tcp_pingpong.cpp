// What a tcp endpoint moves over the loopback interface, two spinning threads: half a ping-pong, and an exchange (both
// directions at once, in chunks of a slot), which bounds the tcp collectives on one host.
//
//   tcp_pingpong [SLOT_BYTES [SOCKETS]]
//
// Each figure is the best and the median of several rounds.  Every payload is checked after its timed loop.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "src/base/assert.hpp"
#include "tests/conformance/loopback.hpp"
#include "tools/version.hpp"
#include "transport/tcp/transport.hpp"

using namespace tutti;

namespace {

constexpr int kRounds = 9;

// Both directions of `bytes`, chunk by chunk, as an executor's lane would.
void exchange(Endpoint& endpoint, const std::byte* out, std::byte* in, size_t bytes) {
  size_t sent = 0;
  size_t got = 0;
  while (sent < bytes || got < bytes) {
    if (sent < bytes) {
      const size_t chunk = std::min(endpoint.slotBytes(), bytes - sent);
      Result<bool> gone = endpoint.send(out + sent, chunk, {});
      TUTTI_ASSERT(gone.ok());
      if (*gone) sent += chunk;
    }
    if (got < bytes) {
      const size_t chunk = std::min(endpoint.slotBytes(), bytes - got);
      Result<bool> came = endpoint.receive(in + got, {chunk, {}});
      TUTTI_ASSERT(came.ok());
      if (*came) got += chunk;
    }
  }
}

void oneWay(Endpoint& endpoint, const std::byte* out, std::byte* in, size_t bytes, bool sends) {
  for (size_t at = 0; at < bytes;) {
    const size_t chunk = std::min(endpoint.slotBytes(), bytes - at);
    Result<bool> moved = sends ? endpoint.send(out + at, chunk, {}) : endpoint.receive(in + at, {chunk, {}});
    TUTTI_ASSERT(moved.ok());
    if (*moved) at += chunk;
  }
}

struct Figures {
  double bestUs, medianUs;
};

template <class Body>
Figures time(int iterations, Body body) {
  std::vector<double> us;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = nowNs();
    for (int i = 0; i < iterations; ++i) body(i);
    us.push_back(double(nowNs() - begin) / 1e3 / iterations);
  }
  std::sort(us.begin(), us.end());
  return {us.front(), us[us.size() / 2]};
}

Figures measure(Endpoint* ends[2], size_t bytes, bool both) {
  const int iterations = static_cast<int>(std::clamp<size_t>((64 << 20) / (bytes + 20'000), 8, 3000));
  Figures figures[2];
  bool same[2];
  const auto rank = [&](int r) {
    const std::vector<std::byte> out(bytes, std::byte(r + 1));
    std::vector<std::byte> in(bytes);
    figures[r] = time(iterations, [&](int) {
      if (both) return exchange(*ends[r], out.data(), in.data(), bytes);
      oneWay(*ends[r], out.data(), in.data(), bytes, r == 0);
      oneWay(*ends[r], out.data(), in.data(), bytes, r == 1);
    });
    same[r] = std::all_of(in.begin(), in.end(), [r](std::byte b) { return b == std::byte(2 - r); });
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  TUTTI_ASSERT(same[0] && same[1]);
  const double halves = both ? 1 : 2;
  return {figures[0].bestUs / halves, figures[0].medianUs / halves};
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  TcpOptions options;
  if (argc > 1) options.slotBytes = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) options.nSockets = std::atoi(argv[2]);
  conformance::LoopbackStreams streams(AF_INET, 0);
  conformance::LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<TcpTransport> transports[2];
  std::unique_ptr<Endpoint> endpoints[2];
  Endpoint* ends[2];
  for (int r : {0, 1}) {
    transports[r] = std::move(*TcpTransport::create(views[r], r, options));
    endpoints[r] =
        std::move(*awaitEndpoint(*transports[r], 1 - r, transports[r]->address(), 0, Deadline::inMs(10'000)));
    ends[r] = endpoints[r].get();
  }
  std::printf("# slot %zu bytes, %d sockets; us: best (median); GB/s of one direction, best\n", options.slotBytes,
              options.nSockets);
  std::printf("%10s  %20s %6s  %20s %6s\n", "bytes", "one way us", "GB/s", "exchange us", "GB/s");
  for (const size_t bytes : {size_t{8}, size_t{1} << 10, size_t{8} << 10, size_t{64} << 10, size_t{512} << 10,
                             size_t{4} << 20, size_t{32} << 20}) {
    const Figures way = measure(ends, bytes, false);
    const Figures both = measure(ends, bytes, true);
    const auto rate = [bytes](const Figures& f) { return double(bytes) / f.bestUs / 1e3; };
    std::printf("%10zu  %9.2f (%8.2f) %6.2f  %9.2f (%8.2f) %6.2f\n", bytes, way.bestUs, way.medianUs, rate(way),
                both.bestUs, both.medianUs, rate(both));
  }
}
