// Events on streams of the host: what they capture, who waits for them, and what becomes of errors.
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>

#include "tests/support/ranks.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/streams.hpp"

using namespace tutti::test;

TEST_CASE("an event is complete as long as nothing was recorded") {
  const Event event;
  const Stream stream;
  CHECK(tuttiEventQuery(event) == tuttiSuccess);
  CHECK(tuttiEventSynchronize(event) == tuttiSuccess);
  CHECK(tuttiStreamWaitEvent(stream, event) == tuttiSuccess);
  CHECK(tuttiEventRecord(event, stream) == tuttiSuccess);  // on an idle stream
  CHECK(tuttiEventQuery(event) == tuttiSuccess);
}

TEST_CASE("call k is waited for while call k + 1 is under way") {
  Gate first, second;
  const Stream stream;
  const Event afterFirst, afterSecond;
  REQUIRE(first.close(stream) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(afterFirst, stream) == tuttiSuccess);
  REQUIRE(second.close(stream) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(afterSecond, stream) == tuttiSuccess);
  CHECK(tuttiEventQuery(afterFirst) == tuttiInProgress);
  REQUIRE(first.open() == tuttiSuccess);
  CHECK(tuttiEventSynchronize(afterFirst) == tuttiSuccess);
  CHECK(tuttiEventQuery(afterFirst) == tuttiSuccess);
  CHECK(tuttiEventQuery(afterSecond) == tuttiInProgress);
  CHECK(tuttiStreamQuery(stream) == tuttiInProgress);
  REQUIRE(second.open() == tuttiSuccess);
  CHECK(tuttiEventSynchronize(afterSecond) == tuttiSuccess);
  CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
}

TEST_CASE("a stream waits for what an event had captured when it was told to, and its caller does not") {
  Gate gate;
  const Stream working, waiting;
  const Event event, after;
  REQUIRE(gate.close(working) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(event, working) == tuttiSuccess);
  REQUIRE(tuttiStreamWaitEvent(waiting, event) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(after, waiting) == tuttiSuccess);
  const std::string then = GENERATE("record again", "destroy the event", "leave it");
  CAPTURE(then);
  const Stream idle;
  if (then == "record again") {
    REQUIRE(tuttiEventRecord(event, idle) == tuttiSuccess);
    CHECK(tuttiEventQuery(event) == tuttiSuccess);
  }
  if (then == "destroy the event") CHECK(tuttiEventDestroy(event) == tuttiSuccess);
  CHECK(tuttiEventQuery(after) == tuttiInProgress);
  CHECK(tuttiStreamQuery(waiting) == tuttiInProgress);
  REQUIRE(gate.open() == tuttiSuccess);
  CHECK(tuttiEventSynchronize(after) == tuttiSuccess);
  CHECK(tuttiStreamSynchronize(waiting) == tuttiSuccess);
}

TEST_CASE("an event outlives the stream that it was recorded on") {
  const Event event;
  {
    Gate gate;
    const Stream stream;
    REQUIRE(gate.close(stream) == tuttiSuccess);
    REQUIRE(tuttiEventRecord(event, stream) == tuttiSuccess);
    REQUIRE(gate.open() == tuttiSuccess);
    REQUIRE(tuttiEventSynchronize(event) == tuttiSuccess);
  }
  const Stream other;
  CHECK(tuttiEventQuery(event) == tuttiSuccess);
  CHECK(tuttiStreamWaitEvent(other, event) == tuttiSuccess);
  CHECK(tuttiEventRecord(event, other) == tuttiSuccess);
  CHECK(tuttiEventSynchronize(event) == tuttiSuccess);
}

TEST_CASE("a record in a group captures nothing of it") {
  Gate gate;
  const Stream stream;
  const Event inside, afterwards;
  REQUIRE(tuttiGroupStart() == tuttiSuccess);
  REQUIRE(gate.close(stream) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(inside, stream) == tuttiSuccess);
  REQUIRE(tuttiGroupEnd() == tuttiSuccess);
  REQUIRE(tuttiEventRecord(afterwards, stream) == tuttiSuccess);
  CHECK(tuttiEventQuery(inside) == tuttiSuccess);
  CHECK(tuttiEventQuery(afterwards) == tuttiInProgress);
  REQUIRE(gate.open() == tuttiSuccess);
  CHECK(tuttiEventSynchronize(afterwards) == tuttiSuccess);
}

TEST_CASE("an abort ends waits for what an event has captured, and everyone who waits hears why") {
  Gate gate;
  const Stream working, waiting;
  const Event event, after, late;
  REQUIRE(gate.close(working) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(event, working) == tuttiSuccess);
  REQUIRE(tuttiStreamWaitEvent(waiting, event) == tuttiSuccess);
  REQUIRE(tuttiEventRecord(after, waiting) == tuttiSuccess);
  tuttiResult_t heard = tuttiSuccess;
  std::string words;
  std::thread waiter([&] {
    heard = tuttiEventSynchronize(event);
    words = tuttiGetLastError(nullptr);
  });
  gate.abort();
  waiter.join();
  CHECK(heard == tuttiRemoteError);
  CHECK(words.find("aborted") != std::string::npos);
  CHECK(tuttiEventSynchronize(after) == tuttiRemoteError);     // by way of the other stream
  CHECK(tuttiEventQuery(event) == tuttiRemoteError);           // as often as it is asked
  CHECK(tuttiStreamSynchronize(working) == tuttiRemoteError);  // and the streams tell it on their own, once
  CHECK(tuttiStreamSynchronize(waiting) == tuttiRemoteError);
  CHECK(tuttiStreamSynchronize(waiting) == tuttiSuccess);
  CHECK(tuttiEventQuery(event) == tuttiRemoteError);
  REQUIRE(tuttiEventRecord(late, working) == tuttiSuccess);  // what a stream has told is no news
  CHECK(tuttiEventQuery(late) == tuttiSuccess);
}

TEST_CASE("streams and events that are none are refused with a sentence") {
  const Stream stream;
  const Event event;
  tuttiEvent_t gone = nullptr;
  tuttiStream_t ended = nullptr;
  REQUIRE(tuttiEventCreate(&gone) == tuttiSuccess);
  REQUIRE(tuttiEventDestroy(gone) == tuttiSuccess);
  REQUIRE(tuttiStreamCreate(&ended) == tuttiSuccess);
  REQUIRE(tuttiStreamDestroy(ended) == tuttiSuccess);
  const auto legacy = reinterpret_cast<tuttiStream_t>(1);  // a handle of CUDA's, which points nowhere
  const auto refused = [](tuttiResult_t got, const char* words) {
    const std::string text = tuttiGetLastError(nullptr);
    CAPTURE(text, words);
    CHECK(got == tuttiInvalidArgument);
    CHECK(text.find(words) != std::string::npos);
  };
  refused(tuttiEventCreate(nullptr), "tuttiEventCreate: event is NULL");
  refused(tuttiEventDestroy(nullptr), "event is NULL");
  refused(tuttiEventDestroy(gone), "has been destroyed");
  refused(tuttiEventQuery(nullptr), "event is NULL");
  refused(tuttiEventQuery(gone), "has been destroyed");
  refused(tuttiEventSynchronize(nullptr), "event is NULL");
  refused(tuttiEventSynchronize(gone), "has been destroyed");
  refused(tuttiEventRecord(nullptr, stream), "event is NULL");
  refused(tuttiEventRecord(gone, stream), "has been destroyed");
  refused(tuttiEventRecord(event, nullptr), "stream is NULL");
  refused(tuttiEventRecord(event, ended), "has been destroyed");
  refused(tuttiEventRecord(event, legacy), "cudaEventRecord");
  refused(tuttiStreamWaitEvent(stream, nullptr), "event is NULL");
  refused(tuttiStreamWaitEvent(stream, gone), "has been destroyed");
  refused(tuttiStreamWaitEvent(nullptr, event), "stream is NULL");
  refused(tuttiStreamWaitEvent(legacy, event), "cudaStreamWaitEvent");
  refused(tuttiStreamSynchronize(legacy), "cudaStreamSynchronize");
  refused(tuttiStreamQuery(ended), "has been destroyed");
  refused(tuttiStreamDestroy(ended), "has been destroyed");
  refused(tuttiStreamDestroy(nullptr), "stream is NULL");
  CHECK(tuttiEventQuery(event) == tuttiSuccess);  // a refused record captures nothing
}

// A model of streams: lists of things to pass, each of them a gate (as many are open as were opened), a wait for a
// point, or a point.  What it cannot pass must be in progress, whatever the threads did; what it can must come to pass.
namespace {

struct Model {
  struct Point {
    bool passed = false;
  };
  using PointRef = std::shared_ptr<Point>;
  struct Step {
    PointRef point, awaited;  // neither: a gate
  };
  struct Queue {
    std::deque<Step> steps;
    int opened = 0;
  };

  explicit Model(size_t nStreams, size_t nEvents) : streams(nStreams), events(nEvents) {}

  void record(size_t event, size_t stream) {
    events[event] = std::make_shared<Point>();
    streams[stream].steps.push_back({events[event], nullptr});
  }
  void follow(size_t stream, size_t event) {
    if (events[event]) streams[stream].steps.push_back({nullptr, events[event]});
  }
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Queue& queue : streams) {
        while (!queue.steps.empty() && passes(&queue)) {
          queue.steps.pop_front();
          moved = true;
        }
      }
    }
  }
  bool done(size_t event) const { return !events[event] || events[event]->passed; }

  std::vector<Queue> streams;
  std::vector<PointRef> events;

 private:
  static bool passes(Queue* queue) {
    const Step& step = queue->steps.front();
    if (step.awaited) return step.awaited->passed;
    if (step.point) return step.point->passed = true;
    if (queue->opened == 0) return false;
    --queue->opened;
    return true;
  }
};

/// "" if all events and streams are as the model says.
std::string compare(const Model& model, const std::vector<std::unique_ptr<Event>>& events,
                    const std::vector<std::unique_ptr<Stream>>& streams) {
  for (size_t e = 0; e < events.size(); ++e) {
    const std::string name = "event " + std::to_string(e);
    if (model.done(e)) {
      if (tuttiEventSynchronize(*events[e]) != tuttiSuccess) return name + " fails";
      if (tuttiEventQuery(*events[e]) != tuttiSuccess) return name + " is not done";
    } else if (tuttiEventQuery(*events[e]) != tuttiInProgress) {
      return name + " is done too early";
    }
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    const std::string name = "stream " + std::to_string(s);
    if (!model.streams[s].steps.empty()) {
      if (tuttiStreamQuery(*streams[s]) != tuttiInProgress) return name + " is idle too early";
    } else if (tuttiStreamSynchronize(*streams[s]) != tuttiSuccess) {
      return name + " fails";
    }
  }
  return "";
}

std::string runProgram(uint64_t seed) {
  constexpr size_t kStreams = 4, kEvents = 5;
  constexpr int kSteps = 120;
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Model model(kStreams, kEvents);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::deque<Gate> gates;  // destroyed before the streams are: what is closed still ends then
  for (size_t s = 0; s < kStreams; ++s) streams.push_back(std::make_unique<Stream>());
  for (size_t s = 0; s < kStreams; ++s) gates.emplace_back();
  for (size_t e = 0; e < kEvents; ++e) events.push_back(std::make_unique<Event>());
  std::vector<int> closed(kStreams);
  std::string said;
  const auto open = [&](size_t s) {
    if (closed[s] == 0) return tuttiSuccess;
    --closed[s];
    ++model.streams[s].opened;
    return gates[s].open();
  };
  for (int i = 0; i < kSteps; ++i) {
    const size_t s = below(kStreams), e = below(kEvents);
    tuttiResult_t result = tuttiSuccess;
    switch (below(8)) {
      case 0:
        ++closed[s];
        model.streams[s].steps.emplace_back();
        result = gates[s].close(*streams[s]);
        break;
      case 1:
      case 2: result = open(s); break;
      case 3:
      case 4:
        model.record(e, s);
        result = tuttiEventRecord(*events[e], *streams[s]);
        break;
      case 5:
      case 6:
        model.follow(s, e);
        result = tuttiStreamWaitEvent(*streams[s], *events[e]);
        break;
      default:  // destroyed as it is
        model.events[e] = nullptr;
        events[e] = std::make_unique<Event>();
    }
    if (result != tuttiSuccess) return "step " + std::to_string(i) + ": " + tuttiGetLastError(nullptr);
    model.run();
    if (said = compare(model, events, streams); !said.empty()) return "step " + std::to_string(i) + ": " + said;
  }
  for (size_t s = 0; s < kStreams; ++s) {
    while (closed[s] > 0) {
      if (open(s) != tuttiSuccess) return tuttiGetLastError(nullptr);
    }
  }
  model.run();
  for (const Model::Queue& queue : model.streams) {
    if (!queue.steps.empty()) return "the model has a cycle";
  }
  return compare(model, events, streams);
}

}  // namespace

TEST_CASE("records, waits and queries at random are as a model says") {
  for (const uint64_t seed : tutti::testSeeds(1, 8)) {
    CAPTURE(seed);
    CHECK(runProgram(seed) == "");
  }
}

TEST_CASE("several threads record, wait for and query the same events on the same streams") {
  constexpr int kThreads = 4, kRounds = 200;
  const Stream streams[2];
  const Event events[3];
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const auto check = [&](tuttiResult_t result, bool may = false) {
        if (result != tuttiSuccess && !(may && result == tuttiInProgress)) ++wrong;
      };
      for (int i = 0; i < kRounds; ++i) {
        const Stream& stream = streams[random() % 2];
        const Event& event = events[random() % 3];
        check(tuttiEventRecord(event, stream));
        check(tuttiStreamWaitEvent(streams[random() % 2], event));
        check(tuttiEventQuery(events[random() % 3]), true);
        check(tuttiStreamQuery(stream), true);
        if (i % 8 == 0) check(tuttiEventSynchronize(event));
        tuttiEvent_t own = nullptr;
        check(tuttiEventCreate(&own));
        check(tuttiEventRecord(own, stream));
        check(tuttiStreamWaitEvent(streams[random() % 2], own));
        check(tuttiEventDestroy(own));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (const Stream& stream : streams) CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
}

TEST_CASE("work of one communicator follows that of another on its own stream") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          tuttiComm_t other = nullptr;
          RANK_TRY(tuttiCommSplit(r.comm, 0, -r.rank, &other, nullptr));
          tuttiStream_t first = nullptr, second = nullptr;
          tuttiEvent_t there = nullptr, back = nullptr;
          RANK_TRY(tuttiStreamCreate(&first));
          RANK_TRY(tuttiStreamCreate(&second));
          RANK_TRY(tuttiEventCreate(&there));
          RANK_TRY(tuttiEventCreate(&back));
          double value = 1;
          for (int i = 0; i < 20; ++i) {  // each on the result of the one before, on alternating streams
            RANK_TRY(tuttiAllReduce(&value, &value, 1, tuttiFloat64, tuttiSum, r.comm, first));
            RANK_TRY(tuttiEventRecord(there, first));
            RANK_TRY(tuttiStreamWaitEvent(second, there));
            RANK_TRY(tuttiAllReduce(&value, &value, 1, tuttiFloat64, tuttiSum, other, second));
            RANK_TRY(tuttiEventRecord(back, second));
            RANK_TRY(tuttiStreamWaitEvent(first, back));
          }
          RANK_TRY(tuttiEventSynchronize(back));
          RANK_CHECK(value == 12157665459056928801.0);  // 3^40
          RANK_TRY(tuttiEventDestroy(there));
          RANK_TRY(tuttiEventDestroy(back));
          RANK_TRY(tuttiStreamDestroy(first));
          RANK_TRY(tuttiStreamDestroy(second));
          RANK_TRY(tuttiCommDestroy(other));
          return "";
        }) == "");
}
