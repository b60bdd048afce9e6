// How many messages may be on their way: control lines, the ring for small messages, slots, and their credits.
#include <random>
#include <thread>

#include "src/base/copy.hpp"
#include "src/device/host/host_memory.hpp"
#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/layout.hpp"

using namespace tutti;
using namespace tutti::test;

// What may be under way of messages of three kinds, by what both sides have counted.
struct UnderWay {
  uint32_t mostLines = shm::kLines, creditBatch = shm::kLines / 4;
  size_t lines = 0, slots = 0, smallBytes = 0;
  void add(size_t bytes, int sign) {
    const auto change = [&](size_t* value, size_t by) { *value = sign > 0 ? *value + by : *value - by; };
    change(&lines, 1);
    if (bytes > shm::kWholeBytes) change(&slots, 1);
    if (bytes > shm::kInlineBytes && bytes <= shm::kWholeBytes) change(&smallBytes, bytes);
  }
  // Credits for inline messages come in batches, and the end of the ring is left empty where a message does not fit.
  bool mustTake(size_t bytes, size_t mostSlots) const {
    if (lines > mostLines - creditBatch) return false;
    return bytes > shm::kWholeBytes ? slots < mostSlots : smallBytes + bytes <= shm::kRingBytes / 2;
  }
  bool mayTake(size_t bytes, size_t mostSlots) const {
    if (lines >= mostLines) return false;
    return bytes > shm::kWholeBytes ? slots < mostSlots : smallBytes + bytes <= shm::kRingBytes;
  }
};

TEST_CASE("messages stay in order over thousands of wrap-arounds, with any number of them on their way") {
  constexpr size_t kMost = 70'000;
  const auto data = pattern(kMost + 256, 1);
  for (const size_t slots : {size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
    const bool sharedCores = slots > 2;
    CAPTURE(slots, sharedCores);
    ShmPair p(Ends::Threads, slots, kMost, true, sharedCores);
    std::mt19937 random(static_cast<unsigned>(slots));
    uint64_t sent = 0, received = 0;
    UnderWay underWay;
    if (sharedCores) underWay = {shm::kCrowdedLines, shm::kCrowdedLines / 2};
    std::string wrong;
    const auto sizeOf = [](uint64_t n) -> size_t { return n / 50 % 2 == 0 ? n % 97 : n * 3701 % (kMost + 1); };
    while (received < 5000 && wrong.empty()) {
      if (random() % 2 == 0) {
        const size_t bytes = sizeOf(sent);
        const bool gone = *p.a().send(data.data() + sent % 256, bytes, callNumber(sent));
        if (gone ? !underWay.mayTake(bytes, slots) : underWay.mustTake(bytes, slots)) {
          wrong = cat("message ", sent, " after ", received, ": sent ", gone);
        }
        if (gone) underWay.add(bytes, 1);
        sent += gone;
      } else {
        std::byte dst[kMost];
        const bool came = *p.b().receive(dst, {sizeOf(received), callNumber(received)});
        if (came != (sent > received)) wrong = cat("message ", received, ": came ", came);
        if (came && std::memcmp(dst, data.data() + received % 256, sizeOf(received)) != 0) {
          wrong = cat("message ", received, ": wrong bytes");
        }
        if (came) underWay.add(sizeOf(received), -1);
        received += came;
      }
    }
    CHECK(wrong == "");
  }
}

constexpr size_t kLarge = shm::kWholeBytes + 1;  // takes a slot

TEST_CASE("slots run out after `slots` messages and come back one by one") {
  ShmPair p(Ends::Threads, 4, kLarge);
  const auto data = pattern(kLarge, 1);
  const Expect expect{kLarge, callNumber(1)};
  std::byte dst[kLarge];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) CHECK(*p.a().send(data.data(), kLarge, callNumber(1)));
    CHECK_FALSE(*p.a().send(data.data(), kLarge, callNumber(1)));
    CHECK(p.a().reserve()->empty());
    CHECK(*p.a().postSend(data.data(), kLarge, callNumber(1)) == 0);
    CHECK(*p.b().peek(expect) != nullptr);
    CHECK_FALSE(*p.a().send(data.data(), kLarge, callNumber(1)));  // peeked at, not released
    p.b().release();
    CHECK(p.a().reserve()->size() == p.a().slotBytes());
    CHECK(*p.a().send(data.data(), kLarge, callNumber(1)));
    for (int i = 0; i < 4; ++i) CHECK(*p.b().receive(dst, expect));
    CHECK_FALSE(*p.b().receive(dst, expect));
  }
}

TEST_CASE("small messages take no slot: there is room for many, also while the slots are full") {
  ShmPair p(Ends::Threads, 2, kLarge);
  const auto data = pattern(kLarge, 1);
  std::byte dst[kLarge];
  for (const size_t small : {size_t{0}, size_t{96}, size_t{97}, size_t{1024}}) {
    for (int i = 0; i < 2; ++i) CHECK(*p.a().send(data.data(), kLarge, callNumber(1)));
    for (uint32_t i = 2; i < shm::kLines; ++i) CHECK(*p.a().send(data.data(), small, callNumber(i)));
    CHECK_FALSE(*p.a().send(nullptr, 0, callNumber(99)));
    for (int i = 0; i < 2; ++i) CHECK(*p.b().receive(dst, {kLarge, callNumber(1)}));
    for (uint32_t i = 2; i < shm::kLines; ++i) {
      CHECK(*p.b().receive(dst, {small, callNumber(i)}));
      CHECK(std::equal(dst, dst + small, data.begin()));
    }
    CHECK_FALSE(*p.b().receive(dst, {small, callNumber(1)}));
  }
}

TEST_CASE("a sender that finds all lines full hears when they are free, from small messages alone") {
  ShmPair p;
  uint64_t sent = 0;
  for (uint64_t received = 0; received < 1000;) {
    while (*p.a().send(reinterpret_cast<const std::byte*>(&sent), 8, callNumber(sent))) ++sent;
    REQUIRE(sent - received > 0);
    uint64_t value = 0;
    while (*p.b().receive(reinterpret_cast<std::byte*>(&value), {8, callNumber(received)}))
      REQUIRE(value == received++);
    REQUIRE(received == sent);
  }
}

TEST_CASE("where ranks share cores a sender runs further ahead, and hears of room for many messages at once") {
  ShmPair p(Ends::Processes, 4, 1000, true, true);
  const auto sendAll = [&] {
    uint32_t sent = 0;
    while (*p.a().send(reinterpret_cast<const std::byte*>(&sent), 4, callNumber(1))) ++sent;
    return sent;
  };
  CHECK(sendAll() == shm::kCrowdedLines);
  uint32_t value = 0, taken = 0, room = 0;
  for (; room == 0; ++taken, room = sendAll()) {
    REQUIRE(*p.b().receive(reinterpret_cast<std::byte*>(&value), {4, callNumber(1)}));
    REQUIRE(value == taken);
  }
  CHECK(taken == shm::kCrowdedLines / 2);
  CHECK(room == shm::kCrowdedLines / 2);
}

TEST_CASE("messages beyond small ones are sent ahead, and where ranks share cores those that are answered take slots") {
  for (const bool sharedCores : {false, true}) {
    for (const bool answered : {false, true}) {
      CAPTURE(sharedCores, answered);
      ShmPair p(Ends::Processes, 1, 128 << 10, true, sharedCores);
      const std::vector<std::byte> data = pattern(12'001, 1);
      std::vector<std::byte> dst(12'001);
      const auto receive = [&](Endpoint& endpoint) {
        REQUIRE(*endpoint.receive(dst.data(), {12'001, callNumber(1)}));
        REQUIRE(dst == data);
      };
      for (int i = 0; i < 6; ++i) {  // so many that who only sends is known to run ahead
        REQUIRE(*p.a().send(data.data(), 12'001, callNumber(1)));
        receive(p.b());
        if (!answered) continue;
        REQUIRE(*p.b().send(data.data(), 12'001, callNumber(1)));
        receive(p.a());
      }
      int sent = 0;
      while (*p.a().send(data.data(), 12'001, callNumber(1))) ++sent;
      CHECK((sharedCores && answered ? sent == 1 : sent > 12));
      for (int i = 0; i < sent; ++i) receive(p.b());
    }
  }
}
