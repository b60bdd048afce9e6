// What this machine can do, measured: bandwidth of the cores and hand-over times between them.
//
// Each function prints lines "KIND KEY=VALUE..." to stdout; perf/limits/limits reads them.  All figures are the best of
// many short trials: a limit is what the machine does when nothing disturbs it.
#pragma once

#include <chrono>
#include <vector>

// Wider vectors where the processor has them, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

namespace tutti::limits {

/// "bandwidth kernel=K threads=T bytes=B traffic=G": every thread, pinned to a cpu of its own, works on private buffers
/// of B bytes; G is GB/s (1e9) read and written by all threads together.
void measureBandwidth(const std::vector<int>& cpus);

/// "latency what=W us=U": cache line, futex, yield.  What needs two cpus is left out where there is one.
void measureHandOver(const std::vector<int>& cpus);

/// "latency what=tcp_..." and "socket bytes=B threads=T traffic=G": loopback TCP; G is GB/s through all sockets
/// together.
void measureSockets(const std::vector<int>& cpus);

/// "crossing form=F data=D way=W bytes=B us=U": B bytes from the memory of a process to that of another on the next
/// cpu, which has not mapped it.  F: one_way, or exchange (each to the other at once); D: reused, or fresh (written
/// just before); W: copies (through shared memory, in and out at once, by the best step) or read (by the system).
void measureCrossing(const std::vector<int>& cpus);

/// The cpus this process may use.
std::vector<int> allowedCpus();
void pinTo(int cpu);

inline double nowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tutti::limits
