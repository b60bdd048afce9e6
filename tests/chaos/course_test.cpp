// The course of a stream: what is done to which byte.
#include <algorithm>
#include <catch2/catch.hpp>

#include "src/base/clock.hpp"
#include "tests/support/seeds.hpp"
#include "tools/chaos/course.hpp"

using namespace tutti;
using namespace tutti::chaos;

namespace {

std::vector<std::byte> counted(size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
  return out;
}

struct Outcome {
  std::vector<std::byte> bytes;
  std::vector<Deed> deeds;
  std::vector<size_t> pieces;
  Course::End end = Course::End::Open;
  int64_t lastNs = 0;
};

/// All of `input`, put in parts of `part` bytes, stepNs apart, and taken as soon as it is due.
Outcome pass(Course& course, std::span<const std::byte> input, size_t part, int64_t stepNs, bool finish = true) {
  Outcome outcome;
  int64_t now = 1'000'000'000;
  const auto take = [&] {
    for (auto piece = course.due(now); !piece.empty(); piece = course.due(now)) {
      outcome.bytes.insert(outcome.bytes.end(), piece.begin(), piece.end());
      outcome.pieces.push_back(piece.size());
      outcome.lastNs = now;
      course.taken(piece.size());
    }
    for (const Deed& deed : course.takeDeeds()) outcome.deeds.push_back(deed);
  };
  while (!input.empty()) {
    const size_t n = std::min(part, input.size());
    course.put(input.first(n), now);
    input = input.subspan(n);
    take();
    now += stepNs;
  }
  if (finish) course.finish(now);
  for (int64_t next = course.nextNs(now); next != Course::kNever; next = course.nextNs(now)) {
    now = next;
    take();
  }
  take();
  outcome.end = course.end(now);
  return outcome;
}

std::vector<Deed> of(const std::vector<Deed>& deeds, DeedKind kind) {
  std::vector<Deed> some;
  std::copy_if(deeds.begin(), deeds.end(), std::back_inserter(some), [&](const Deed& d) { return d.kind == kind; });
  return some;
}

}  // namespace

TEST_CASE("a course without misdeeds gives what it got, at once") {
  const auto input = counted(200'000);
  for (const size_t part : {size_t{1000}, size_t{4096}, size_t{200'000}}) {
    Course course({}, 1, 0);
    const Outcome outcome = pass(course, input, part, 0);
    CHECK(outcome.bytes == input);
    CHECK(outcome.deeds.empty());
    CHECK(outcome.lastNs == 1'000'000'000);
    CHECK(outcome.end == Course::End::Closed);
  }
}

TEST_CASE("one seed does the same to the same bytes, however they come") {
  const auto input = counted(300'000);
  for (const uint64_t seed : testSeeds(1, 30)) {
    CAPTURE(seed);
    const Misdeeds all{.seed = seed,
                       .delayMs = 1,
                       .jitterMs = 3,
                       .splitBytes = 700,
                       .stallEvery = 50'000,
                       .stallMs = 5,
                       .flipEvery = 20'000,
                       .closeEvery = 400'000,
                       .resetEvery = 400'000};
    Course first(all, 3, 1);
    const Outcome reference = pass(first, input, input.size(), 0);
    for (const size_t part : {size_t{1}, size_t{777}, size_t{65536}}) {
      if (part == 1 && seed % 10 != 0) continue;
      Course again(all, 3, 1);
      const Outcome outcome = pass(again, input, part, 1000);
      CHECK(outcome.bytes == reference.bytes);
      CHECK(outcome.deeds == reference.deeds);
      CHECK(outcome.end == reference.end);
    }
    Course other(all, 4, 1), back(all, 3, 0);
    CHECK(pass(other, input, 4096, 0).deeds != reference.deeds);
    CHECK(pass(back, input, 4096, 0).deeds != reference.deeds);
  }
}

TEST_CASE("to ask for one misdeed more leaves the others where they were") {
  const auto input = counted(500'000);
  Course few({.seed = 9, .flipEvery = 10'000}, 1, 0);
  Course more({.seed = 9, .splitBytes = 99, .stallEvery = 7000, .flipEvery = 10'000}, 1, 0);
  const auto flips = of(pass(few, input, 5000, 0).deeds, DeedKind::Flip);
  CHECK(flips.size() > 20);
  CHECK(of(pass(more, input, 5000, 0).deeds, DeedKind::Flip) == flips);
}

TEST_CASE("the bits that are said to be flipped are, and no others") {
  const auto input = counted(400'000);
  Course course({.seed = 5, .flipEvery = 9000}, 1, 0);
  Outcome outcome = pass(course, input, 3000, 0);
  CHECK(outcome.bytes != input);
  for (const Deed& deed : outcome.deeds) outcome.bytes[deed.position] ^= std::byte{1} << deed.bit;
  CHECK(outcome.bytes == input);
}

TEST_CASE("pieces are as small, or as large, as asked") {
  const auto input = counted(50'000);
  Course split({.seed = 2, .splitBytes = 10}, 1, 0);
  const Outcome pieces = pass(split, input, 50'000, 0);
  CHECK(pieces.bytes == input);
  CHECK(*std::max_element(pieces.pieces.begin(), pieces.pieces.end()) == 10);
  CHECK(*std::min_element(pieces.pieces.begin(), pieces.pieces.end()) == 1);
  Course together({.seed = 2, .coalesceBytes = 12'000}, 1, 0);
  const Outcome groups = pass(together, input, 500, 1000);
  CHECK(groups.bytes == input);
  CHECK(groups.pieces == std::vector<size_t>{12'000, 12'000, 12'000, 12'000, 2000});
}

TEST_CASE("what waits to leave together leaves after a while when no more comes") {
  Course course({.coalesceBytes = 12'000}, 1, 0);
  const auto input = counted(100);
  course.put(input, 0);
  CHECK(course.due(0).empty());
  const int64_t next = course.nextNs(0);
  CHECK(next == 20 * kMs);
  CHECK(course.due(next).size() == 100);
}

TEST_CASE("delays, stalls and bandwidth only make bytes late, and keep their order") {
  const auto input = counted(100'000);
  Course late({.delayMs = 10, .jitterMs = 5}, 1, 0);
  const Outcome delayed = pass(late, input, 100'000, 0);
  CHECK(delayed.bytes == input);
  CHECK(delayed.lastNs >= 1'000'000'000 + 10 * kMs);
  CHECK(delayed.lastNs <= 1'000'000'000 + 15 * kMs);
  Course slow({.bandwidth = 1'000'000}, 1, 0);
  const Outcome paced = pass(slow, input, 100'000, 0);
  CHECK(paced.bytes == input);
  CHECK(paced.lastNs - 1'000'000'000 > 99 * kMs);
  CHECK(paced.lastNs - 1'000'000'000 < 101 * kMs);
  Course stalled({.seed = 3, .stallEvery = 20'000, .stallMs = 50}, 1, 0);
  const Outcome stopped = pass(stalled, input, 100'000, 0);
  CHECK(stopped.bytes == input);
  CHECK(!stopped.deeds.empty());
  CHECK(stopped.lastNs == 1'000'000'000 + static_cast<int64_t>(stopped.deeds.size()) * 50 * kMs);
}

TEST_CASE("closes and resets end the stream at their byte") {
  const auto input = counted(300'000);
  for (const bool reset : {false, true}) {
    const Misdeeds misdeeds{
        .seed = 7, .closeEvery = reset ? size_t{0} : 50'000, .resetEvery = reset ? size_t{50'000} : 0};
    Course course(misdeeds, 1, 0);
    const Outcome outcome = pass(course, input, 1000, 0, false);
    REQUIRE(outcome.deeds.size() == 1);
    CHECK(outcome.deeds[0].kind == (reset ? DeedKind::Reset : DeedKind::Close));
    CHECK(outcome.bytes.size() == outcome.deeds[0].position);
    CHECK(std::equal(outcome.bytes.begin(), outcome.bytes.end(), input.begin()));
    CHECK(outcome.end == (reset ? Course::End::Reset : Course::End::Closed));
    Course good(misdeeds, 1, 0);
    good.behave();
    CHECK(pass(good, input, 1000, 0).bytes == input);
  }
}
