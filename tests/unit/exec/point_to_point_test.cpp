// What a call that is given up does with its messages.
#include "src/exec/point_to_point.hpp"

#include <array>
#include <catch2/catch.hpp>

using namespace tutti;

namespace {

/// Nothing ever comes or goes.
struct SilentEndpoint final : Endpoint {
  size_t slotBytes() const override { return 64; }
  Result<bool> send(const std::byte*, size_t, const Fingerprint&) override { return false; }
  Result<std::span<std::byte>> reserve() override { return std::span<std::byte>(); }
  Result<bool> commit(size_t, const Fingerprint&) override { return false; }
  Result<const std::byte*> peek(const Expect&) override { return static_cast<const std::byte*>(nullptr); }
  void release() override { ++released; }
  Result<bool> receive(std::byte*, const Expect&) override { return false; }
  Result<Request> postReceive(std::byte*, const Expect&) override { return Request{1}; }
  Result<bool> test(Request) override { return false; }
  void cancel() override { ++cancelled; }
  int released = 0, cancelled = 0;
};

}  // namespace

TEST_CASE("receives of a call that is given up leave their memory to the caller, posted or not") {
  const bool posts = GENERATE(false, true);
  CAPTURE(posts);
  std::array<std::byte, 1 << 16> memory{};
  SilentEndpoint receives, sends;
  PointToPointRun run;
  run.add({.endpoint = &receives,
           .dst = memory.data(),
           .bytes = memory.size(),
           .sliceBytes = memory.size(),
           .posts = posts});
  run.add({.endpoint = &sends, .isSend = true, .source = memory.data(), .bytes = 32, .sliceBytes = 64});
  const Result<Progress> progress = run.step();
  REQUIRE((progress.ok() && *progress != Progress::Done));
  run.abandon();
  CHECK(receives.cancelled == (posts ? 1 : 0));
  CHECK(receives.released == (posts ? 0 : 1));
  CHECK(sends.cancelled + sends.released == 0);
}
