// Measures what marking costs a call: its flight record, and the sixteen bytes that name it in its messages, by which
// ranks that differ are found.  Calls of 8 B and 1 KiB of two ranks of this process stand beside it.
//
//   call_marks [calls]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "src/recorder/flight_recorder.hpp"
#include "tools/version.hpp"
#include "transport/mismatch.hpp"
#include "tutti/tutti.h"

using namespace tutti;

namespace {

constexpr int kRounds = 7;

double nowNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Of one call: the least of some rounds, in processor time of this thread.
template <class Call>
double costNs(long calls, const Call& call) {
  double least = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = nowNs(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 1; i <= calls; ++i) call(static_cast<uint64_t>(i));
    least = std::min(least, (nowNs(CLOCK_THREAD_CPUTIME_ID) - begin) / static_cast<double>(calls));
  }
  return least;
}

const Fingerprint kCall = makeFingerprint({.kind = static_cast<uint32_t>(Collective::AllReduce), .count = 2});

double recordNs(FlightRecorder* recorder, long calls) {
  const CallRecord record{.bytes = 8, .exact = false};  // as of short calls
  return costNs(calls, [&](uint64_t sequence) {
    recorder->enter(sequence, withSequence(kCall, sequence), record);
    recorder->leave();
  });
}

/// Written by a sender into a slot, read and compared by a receiver: of one message each way.
double marksNs(long calls) {
  static volatile uint64_t slot[2];
  bool same = true;
  const double ns = costNs(calls, [&](uint64_t sequence) {
    const Fingerprint own = withSequence(kCall, sequence);
    slot[0] = own.head;
    slot[1] = own.count;
    same = same && checkExpected(1, {8, own}, 8, {slot[0], slot[1]}).ok();
  });
  if (!same) std::abort();
  return ns;
}

/// Time that passes, of both ranks together: the least of some rounds.
double callNs(size_t bytes, long calls) {
  tuttiUniqueId id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return -1;
  double least = 1e300;
  const auto rank = [&](int r) {
    tuttiComm_t comm = nullptr;
    if (tuttiCommInitRank(&comm, 2, id, r) != tuttiSuccess) std::abort();
    std::vector<float> data(bytes / sizeof(float), 1);
    for (int round = 0; round < kRounds + 1; ++round) {
      (void)tuttiBarrier(comm, nullptr);
      const double begin = nowNs(CLOCK_MONOTONIC);
      for (long i = 0; i < calls; ++i) {
        if (tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiMax, comm, nullptr) !=
            tuttiSuccess)
          std::abort();
      }
      const double ns = (nowNs(CLOCK_MONOTONIC) - begin) / static_cast<double>(calls);
      if (r == 0 && round > 0) least = std::min(least, ns);
    }
    (void)tuttiCommDestroy(comm);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const long calls = argc > 1 ? std::atol(argv[1]) : 100'000;
  if (calls <= 0) {
    std::fprintf(stderr, "call_marks [calls]: a number above 0\n");
    return 2;
  }
  FlightRecorder recorder;
  if (const Status opened = recorder.open({}); !opened.ok()) {
    std::fprintf(stderr, "no recorder: %s\n", opened.message().c_str());
    return 1;
  }
  const double record = recordNs(&recorder, calls), marks = marksNs(calls);
  std::printf("flight record of a call   %6.2f ns\nmark of a message         %6.2f ns\n\n", record, marks);
  std::printf("%-22s %10s %10s %10s\n", "AllReduce of 2 ranks", "us", "record %", "mark %");
  for (const size_t bytes : {size_t{8}, size_t{1024}}) {
    const double call = callNs(bytes, calls);
    std::printf("%18zu B   %10.3f %10.2f %10.2f\n", bytes, call / 1e3, 100 * record / call, 100 * marks / call);
  }
}
