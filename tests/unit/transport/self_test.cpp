#include "transport/self/self_transport.hpp"

#include <catch2/catch.hpp>
#include <cstring>

using namespace tutti;

namespace {

std::unique_ptr<Endpoint> selfEndpoint(size_t slotBytes = 100) {
  auto transport = createSelfTransport(3, slotBytes);
  return *awaitEndpoint(*transport, 3, transport->address(), 0, Deadline::never());
}
const Fingerprint kOne{1, 1}, kTwo{2, 2};
const std::byte* bytesOf(const char* text) { return reinterpret_cast<const std::byte*>(text); }

}  // namespace

TEST_CASE("a rank receives what it sends itself, in order, copied or offered") {
  auto c = selfEndpoint();
  std::byte dst[100];
  for (int round = 0; round < 20; ++round) {
    CHECK_FALSE(c->pending());
    CHECK(*c->send(bytesOf("copied"), 6, kOne));
    CHECK_FALSE(*c->send(bytesOf("second"), 6, kOne));  // one buffer
    CHECK(c->reserve()->empty());
    const char* offered = "offered";
    const Request request = *c->postSend(bytesOf(offered), 7, kTwo);
    CHECK(request != 0);
    CHECK(*c->send(nullptr, 0, kOne));  // a token needs no buffer
    CHECK(*c->pending() == kOne);
    CHECK(*c->receive(dst, {6, kOne}));
    CHECK(std::memcmp(dst, "copied", 6) == 0);
    CHECK_FALSE(*c->test(request));
    CHECK(*c->peek({7, kTwo}) == bytesOf(offered));
    c->release();
    CHECK(*c->test(request));
    CHECK(*c->peek({0, kOne}) != nullptr);
    c->release();
    CHECK(*c->peek({0, kOne}) == nullptr);
  }
}

TEST_CASE("a message to self can be built in place") {
  auto c = selfEndpoint();
  const auto room = *c->reserve();
  REQUIRE(room.size() == 100);
  std::memset(room.data(), 7, 100);
  CHECK(*c->commit(100, kOne));
  std::byte dst[100];
  CHECK(*c->receive(dst, {100, kOne}));
  CHECK(dst[99] == std::byte{7});
}

TEST_CASE("the queue to self is bounded, and gives up what was withdrawn") {
  auto c = selfEndpoint();
  for (size_t i = 0; i < kSelfMessages; ++i) CHECK(*c->postSend(bytesOf("x"), 1, kOne) == i + 1);
  CHECK(*c->postSend(bytesOf("x"), 1, kOne) == 0);
  c->cancel();
  CHECK(c->peek({1, kOne}).status().code() == tuttiRemoteError);
}

TEST_CASE("a rank that disagrees with itself is told so") {
  auto c = selfEndpoint();
  CHECK(*c->send(bytesOf("ab"), 2, kOne));
  auto refused = c->peek({2, kTwo});
  CHECK(refused.status().code() == tuttiInvalidUsage);
  CHECK(c->seen() == kOne);
  CHECK(c->send(bytesOf("ab"), 2, kOne).status().message() == refused.status().message());
}
