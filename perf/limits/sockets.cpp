// Loopback TCP between spinning threads: what the kernel takes for a message and how many bytes the cores can push.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "perf/limits/measure.hpp"

namespace tutti::limits {
namespace {

constexpr int kTrials = 60;
constexpr size_t kChunk = 256 << 10;  // of one system call; the best of several tried on loopback
// Larger messages are slower still; a bound drawn from these holds for them.
constexpr size_t kSizes[] = {64 << 10, 512 << 10, 4 << 20};

struct Pair {
  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0) return;
    getsockname(listener, generic, &length);
    a = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(a, generic, length) == 0) b = accept(listener, nullptr, nullptr);
    close(listener);
    const int on = 1;
    for (const int fd : {a, b}) {
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);  // BBR keeps to a pace, inside a host as well
    }
  }
  ~Pair() {
    if (a >= 0) close(a);
    if (b >= 0) close(b);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  int a = -1, b = -1;
};

// Sends and receives `bytes` at once on one socket, without ever blocking; either may be 0.
bool exchange(int fd, const char* out, char* in, size_t sendBytes, size_t recvBytes) {
  size_t sent = 0, received = 0;
  for (int idle = 0; sent < sendBytes || received < recvBytes; ++idle) {
    if (sent < sendBytes) {
      const ssize_t n = send(fd, out + sent, std::min(kChunk, sendBytes - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (n > 0) sent += static_cast<size_t>(n), idle = 0;
    }
    if (received < recvBytes) {
      const ssize_t n = recv(fd, in + received, std::min(kChunk, recvBytes - received), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (n > 0) received += static_cast<size_t>(n), idle = 0;
    }
    if (idle > 1000) sched_yield();
  }
  return true;
}

// Best microseconds of `calls` of one(fd, first) done by two threads on two cpus, one at each end.
template <class One>
double betweenTwo(const std::vector<int>& cpus, int calls, One one) {
  Pair pair;
  if (pair.b < 0) return 0;
  std::atomic<int> arrived{0};
  std::vector<double> times(2 * kTrials, 0);
  const auto run = [&](int side) {
    pinTo(cpus[static_cast<size_t>(side)]);
    for (int trial = 0; trial < kTrials; ++trial) {
      arrived.fetch_add(1);
      while (arrived.load() < 2 * (trial + 1)) sched_yield();
      const double start = nowUs();
      for (int c = 0; c < calls; ++c) {
        if (!one(side == 0 ? pair.a : pair.b, side == 0)) return;
      }
      times[static_cast<size_t>(2 * trial + side)] = (nowUs() - start) / calls;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  double best = 1e30;
  for (size_t t = 0; t < kTrials; ++t) best = std::min(best, std::max(times[2 * t], times[2 * t + 1]));
  return best;
}

// Both ends in one thread: the processor time of a message, without any waiting.
double messageCpuUs(int cpu) {
  pinTo(cpu);
  Pair pair;
  if (pair.b < 0) return 0;
  double best = 1e30;
  for (int trial = 0; trial < kTrials; ++trial) {
    char byte = 0;
    const double start = nowUs();
    for (int i = 0; i < 200; ++i) {
      if (send(pair.a, &byte, 1, MSG_NOSIGNAL) != 1 || recv(pair.b, &byte, 1, 0) != 1) return 0;
    }
    best = std::min(best, (nowUs() - start) / 200);
  }
  return best;
}

}  // namespace

void measureSockets(const std::vector<int>& cpus) {
  std::printf("latency what=tcp_message_cpu us=%.4f\n", messageCpuUs(cpus[0]));
  if (cpus.size() < 2) return;
  const double roundTrip = betweenTwo(cpus, 100, [](int fd, bool first) {
    char out = 0, in = 0;
    return first ? exchange(fd, &out, &in, 1, 0) && exchange(fd, &out, &in, 0, 1)
                 : exchange(fd, &out, &in, 0, 1) && exchange(fd, &out, &in, 1, 0);
  });
  std::printf("latency what=tcp_one_way us=%.4f\n", roundTrip / 2);
  for (const size_t bytes : kSizes) {
    std::vector<char> out(bytes, 1), inA(bytes), inB(bytes);
    const int calls = static_cast<int>(std::max<size_t>(1, (512 << 10) / bytes));
    const double us = betweenTwo(cpus, calls, [&](int fd, bool first) {
      return exchange(fd, out.data(), first ? inA.data() : inB.data(), bytes, bytes);
    });
    std::printf("socket bytes=%zu traffic=%.3f\n", bytes, 2 * static_cast<double>(bytes) / us / 1e3);
    std::fflush(stdout);
  }
}

}  // namespace tutti::limits
