// A communicator ends without waiting for what another one does before it: on the same stream, in the same group.
#include <catch2/catch.hpp>
#include <chrono>
#include <future>

#include "tests/support/pair.hpp"
#include "tests/support/streams.hpp"

using namespace tutti::test;

namespace {

// Waits in here are for nothing that takes long; a rank that is waited for in vain is given up after 30 s.
constexpr std::chrono::seconds kSoon(10);

/// Ways to end rank 0 of the pair while calls of its wait.
tuttiResult_t abortIt(Pair& pair) { return tuttiCommAbort(pair.ranks[0]); }
tuttiResult_t shrinkIt(Pair& pair) {
  const int other = 1;
  tuttiComm_t alone = nullptr;
  const tuttiResult_t result = tuttiCommShrink(pair.ranks[0], &other, 1, &alone, nullptr, TUTTI_SHRINK_ABORT);
  return result == tuttiSuccess ? tuttiCommDestroy(alone) : result;
}
tuttiResult_t revokeAndDestroyIt(Pair& pair) {
  const tuttiResult_t revoked = tuttiCommRevoke(pair.ranks[0], 0);
  if (revoked != tuttiSuccess) return revoked;
  return tuttiCommDestroy(pair.ranks[0]) == tuttiRemoteError ? tuttiSuccess : tuttiInternalError;
}
tuttiResult_t destroyItWhenTheOtherHasGone(Pair& pair) {
  const tuttiResult_t aborted = tuttiCommAbort(pair.ranks[1]);
  if (aborted != tuttiSuccess) return aborted;
  return tuttiCommDestroy(pair.ranks[0]) == tuttiRemoteError ? tuttiSuccess : tuttiInternalError;
}

struct Way {
  const char* name;
  tuttiResult_t (*end)(Pair& pair);
};
const Way kWays[] = {{"abort", abortIt},
                     {"shrink", shrinkIt},
                     {"revoke and destroy", revokeAndDestroyIt},
                     {"destroy when the other has gone", destroyItWhenTheOtherHasGone}};

/// Whether that returned soon; `unblock` makes it return where it would not have.
template <class Unblock>
bool endsSoon(const Way& way, Pair& pair, Unblock unblock) {
  auto ended = std::async(std::launch::async, [&] { return way.end(pair); });
  const bool soon = ended.wait_for(kSoon) == std::future_status::ready;
  if (!soon) unblock();
  return ended.get() == tuttiSuccess && soon;
}

}  // namespace

TEST_CASE("a communicator ends while its calls are queued behind a stuck one of another") {
  const Way way = GENERATE(from_range(std::begin(kWays), std::end(kWays)));
  const std::string queued = GENERATE("one call", "calls on two streams", "an event between");
  CAPTURE(way.name, queued);
  const Stream first, second;
  const Event event;
  Gate gate;
  Pair pair;
  int x = 1, y = 1;
  REQUIRE(gate.close(first) == tuttiSuccess);
  if (queued == "an event between") {
    REQUIRE(tuttiEventRecord(event, first) == tuttiSuccess);
    REQUIRE(tuttiStreamWaitEvent(second, event) == tuttiSuccess);
  } else {
    REQUIRE(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, pair.ranks[0], first) == tuttiSuccess);
  }
  if (queued != "one call") {
    REQUIRE(tuttiAllReduce(&y, &y, 1, tuttiInt32, tuttiSum, pair.ranks[0], second) == tuttiSuccess);
  }
  CHECK(endsSoon(way, pair, [&] { (void)gate.open(); }));
  CHECK(tuttiStreamQuery(first) == tuttiInProgress);  // the other one's call is still where it was
  REQUIRE(gate.open() == tuttiSuccess);
  CHECK(tuttiStreamSynchronize(first) == (queued == "an event between" ? tuttiSuccess : tuttiRemoteError));
  CHECK(tuttiStreamSynchronize(second) == (queued == "one call" ? tuttiSuccess : tuttiRemoteError));
  CHECK((x == 1 && y == 1));
}

TEST_CASE("a communicator ends while a group that it is in waits for another") {
  const Way way = GENERATE(from_range(std::begin(kWays), std::end(kWays)));
  const bool onStream = GENERATE(false, true);
  const std::string state = GENERATE("its call is over", "its call is under way", "the other's turn is to come");
  CAPTURE(way.name, onStream, state);
  const Stream stream, before;
  Gate gate;
  Pair pair;
  if (state == "the other's turn is to come") REQUIRE(gate.close(before) == tuttiSuccess);
  int got[2] = {}, sent[2] = {1, 1};
  const auto exchange = [&](int rank, tuttiStream_t on) {
    (void)tuttiGroupStart();
    (void)tuttiSend(&sent[rank], 1, tuttiInt32, 1 - rank, pair.ranks[rank], on);
    (void)tuttiRecv(&got[rank], 1, tuttiInt32, 1 - rank, pair.ranks[rank], on);
    return tuttiGroupEnd();
  };
  const auto group = [&] {
    const tuttiStream_t on = onStream ? stream.handle : nullptr;
    (void)tuttiGroupStart();
    (void)exchange(0, on);
    (void)gate.close(on);
    return tuttiGroupEnd();
  };
  auto grouped = std::async(std::launch::async, group);
  if (state == "its call is over") {
    REQUIRE(exchange(1, nullptr) == tuttiSuccess);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // usually it waits by then; else it has yet to begin
  }
  CHECK(endsSoon(way, pair, [&] {
    (void)gate.open();
    (void)gate.open();
  }));
  if (state == "the other's turn is to come") REQUIRE(gate.open() == tuttiSuccess);
  REQUIRE(gate.open() == tuttiSuccess);
  const tuttiResult_t result = grouped.get(), later = tuttiStreamSynchronize(stream);
  // It had yet to begin, and has put nothing on the stream; one that is destroyed by then is no communicator any more.
  if (result == tuttiInvalidArgument || (onStream && result == tuttiRemoteError)) {
    CHECK(state != "its call is over");
    CHECK(later == tuttiSuccess);
    return;
  }
  CHECK((onStream ? result : later) == tuttiSuccess);
  const tuttiResult_t told = onStream ? later : result;
  // What the other rank has is over here at the next look, which the end may forestall.
  CHECK((told == tuttiRemoteError || (told == tuttiSuccess && state == "its call is over")));
  CHECK(tuttiStreamSynchronize(before) == tuttiSuccess);
}

TEST_CASE("calls that were dropped leave the order of those that follow as it is") {
  // On one stream each, so that turns come in another order than streams do; the end comes at any time.
  for (int round = 0; round < 30; ++round) {
    const Stream streams[3];
    Gate gate;
    Pair pair;
    std::vector<int> values(40, 1);
    REQUIRE(gate.close(streams[0]) == tuttiSuccess);
    auto peer = std::async(std::launch::async, [&] {
      for (int i = 0; i < 40; ++i) {
        int x = 1;
        if (tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, pair.ranks[1], nullptr) != tuttiSuccess) return i;
      }
      return 40;
    });
    size_t enqueued = 0;
    for (; enqueued < values.size(); ++enqueued) {
      int* x = &values[enqueued];
      const tuttiStream_t stream = streams[enqueued < 20 ? 1 + enqueued % 2 : enqueued % 3];
      if (tuttiAllReduce(x, x, 1, tuttiInt32, tuttiSum, pair.ranks[0], stream) != tuttiSuccess) break;
    }
    CHECK(enqueued == values.size());
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    auto aborted = std::async(std::launch::async, [&] { return tuttiCommAbort(pair.ranks[0]); });
    const bool soon = aborted.wait_for(kSoon) == std::future_status::ready;
    CHECK(soon);
    CHECK(gate.open() == tuttiSuccess);
    CHECK(aborted.get() == tuttiSuccess);
    for (const Stream& stream : streams) (void)tuttiStreamSynchronize(stream);
    // Done are those up to some call, and none of the others: 21 is the first one behind the gate.
    size_t done = 0;
    while (done < values.size() && values[done] == 2) ++done;
    CHECK(done <= 21);
    for (size_t i = done + 1; i < values.size(); ++i) CHECK(values[i] == 1);
    CHECK(peer.get() < 40);
  }
}
