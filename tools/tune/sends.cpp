#include "tools/tune/sends.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "perf/ways/ways.hpp"
#include "src/base/text.hpp"
#include "src/exec/plan.hpp"

namespace tutti {
namespace {

using namespace perf;

struct SendWay {
  Protocol protocol;
  tuttiComm_t comm = nullptr;
  int calls = 2;
  std::vector<double> timesUs = {};
};

using Clock = std::chrono::steady_clock;

/// What a ping-pong goes by.
struct Message {
  size_t bytes;
  float* in;
  float* out;
  bool fresh;
};

/// There and back.  Where data is fresh each of the two writes what it will send before the clock runs.
double roundTripUs(const Ranks& w, const SendWay& way, const Message& m) {
  const int peer = w.rank ^ 1;
  if (m.fresh) {
    renew(m.in, m.bytes);
    check(tuttiBarrier(w.comm, nullptr), "Barrier");
  }
  const Clock::time_point begin = Clock::now();
  if (peer < w.nRanks) {
    if (w.rank % 2 == 0) check(tuttiSend(m.in, m.bytes, tuttiUint8, peer, way.comm, nullptr), "Send");
    check(tuttiRecv(m.out, m.bytes, tuttiUint8, peer, way.comm, nullptr), "Recv");
    if (w.rank % 2 == 1) check(tuttiSend(m.in, m.bytes, tuttiUint8, peer, way.comm, nullptr), "Send");
  }
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Microseconds one way, of the slowest pair.
double timeBlock(const Ranks& w, const SendWay& way, const Message& message) {
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  double us = 0;
  for (int i = 0; i < way.calls; ++i) us += roundTripUs(w, way, message);
  return overRanks(w, us / way.calls / 2, tuttiMax);
}

// A communicator reads the variable when it is made.
std::array<SendWay, 2> openWays(const Ranks& w) {
  std::array<SendWay, 2> ways = {SendWay{Protocol::Slots}, SendWay{Protocol::Direct}};
  for (SendWay& way : ways) {
    setenv("TUTTI_PROTO", protocolName(way.protocol), 1);
    check(tuttiCommSplit(w.comm, 0, w.rank, &way.comm, nullptr), "CommSplit");
  }
  unsetenv("TUTTI_PROTO");
  return ways;
}

/// What else runs makes messages seem slower, never faster.
double usOf(SendWay& way) {
  std::ranges::sort(way.timesUs);
  return way.timesUs[way.timesUs.size() / 4];
}

}  // namespace

std::vector<TunedSend> tuneSends(const Ranks& w, std::span<const size_t> sizes, float* in, float* out, bool fresh,
                                 int rounds, double blockUs) {
  std::array<SendWay, 2> ways = openWays(w);
  std::vector<TunedSend> sends;
  for (const size_t bytes : sizes) {
    if (bytes < kLeastPulledBytes) continue;  // always through slots
    const Message message = {bytes, in, out, fresh};
    for (SendWay& way : ways) {
      way.timesUs.clear();
      way.calls = 5;
      (void)timeBlock(w, way, message);
      const double us = timeBlock(w, way, message);
      way.calls = static_cast<int>(std::clamp(blockUs / std::max(2 * us, 0.01), 2.0, 50'000.0));
    }
    for (int round = 0; round < rounds; ++round) {
      for (SendWay& way : ways) way.timesUs.push_back(timeBlock(w, way, message));
    }
    SendWay& best = usOf(ways[0]) <= usOf(ways[1]) ? ways[0] : ways[1];
    SendWay& other = &best == &ways[0] ? ways[1] : ways[0];
    sends.push_back({bytes, best.protocol, usOf(best)});
    if (w.rank != 0) continue;
    std::printf("%-14s %10s  %-26s %10.2f us   (%s: %.2f us)\n", "send", formatBytes(bytes).c_str(),
                protocolName(best.protocol), usOf(best), protocolName(other.protocol), usOf(other));
    std::fflush(stdout);
  }
  for (const SendWay& way : ways) check(tuttiCommDestroy(way.comm), "CommDestroy");
  return sends;
}

}  // namespace tutti
