#include <random>
#include <thread>

#include "src/base/copy.hpp"
#include "src/device/host_memory.hpp"
#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/layout.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("a message of every size up to a slot arrives whole, from any alignment, by receive and by peek") {
  ShmPair p;
  const size_t slot = p.a().slotBytes();
  const auto data = pattern(slot + 64, 7);
  uint64_t n = 0;
  for (size_t bytes = 0; bytes <= slot; bytes += bytes < 70 ? 1 : 7) {
    for (const bool peek : {false, true}) {
      const std::byte* from = data.data() + n % 61;
      CHECK(passOne(p.a(), p.b(), from, bytes, n, peek) == "");
      CHECK(passOne(p.b(), p.a(), from, bytes, n, peek) == "");
      ++n;
    }
  }
  CHECK(passOne(p.a(), p.b(), data.data(), slot, n, true) == "");
}

TEST_CASE("a message that is filled in steps arrives whole, at every boundary of a step") {
  ShmPair p(Ends::Threads, 3, 40'000);
  const auto data = pattern(p.a().slotBytes() + 64, 7);
  uint64_t n = 0;
  for (const size_t base : {4096, 8192, 12288, 16384, 32768, 39998}) {
    for (size_t bytes = base - 2; bytes <= base + 2; ++bytes) {
      for (const bool peek : {false, true, true, false}) {
        CHECK(passOne(p.a(), p.b(), data.data() + n % 61, bytes, n, peek) == "");
        ++n;
      }
    }
  }
}

// What may be under way of messages of three kinds, by what both sides have counted.
struct UnderWay {
  uint32_t mostLines = shm::kLines, creditBatch = shm::kLines / 4;
  size_t lines = 0, slots = 0, smallBytes = 0;
  void add(size_t bytes, int sign) {
    const auto change = [&](size_t* value, size_t by) { *value = sign > 0 ? *value + by : *value - by; };
    change(&lines, 1);
    if (bytes > shm::kSmallBytes) change(&slots, 1);
    if (bytes > shm::kInlineBytes && bytes <= shm::kSmallBytes) change(&smallBytes, bytes);
  }
  // Credits for inline messages come in batches, and the end of the ring is left empty where a message does not fit.
  bool mustTake(size_t bytes, size_t mostSlots) const {
    if (lines > mostLines - creditBatch) return false;
    return bytes > shm::kSmallBytes ? slots < mostSlots : smallBytes + bytes <= shm::kRingBytes / 2;
  }
  bool mayTake(size_t bytes, size_t mostSlots) const {
    if (lines >= mostLines) return false;
    return bytes > shm::kSmallBytes ? slots < mostSlots : smallBytes + bytes <= shm::kRingBytes;
  }
};

TEST_CASE("messages stay in order over thousands of wrap-arounds, with any number of them on their way") {
  constexpr size_t kMost = 10'000;
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

TEST_CASE("slots run out after `slots` messages and come back one by one") {
  ShmPair p(Ends::Threads, 4, 9000);
  const auto data = pattern(9000, 1);
  const Expect expect{9000, callNumber(1)};
  std::byte dst[9000];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) CHECK(*p.a().send(data.data(), 9000, callNumber(1)));
    CHECK_FALSE(*p.a().send(data.data(), 9000, callNumber(1)));
    CHECK(p.a().reserve()->empty());
    CHECK(*p.a().offer(data.data(), 9000, callNumber(1)) == 0);
    CHECK(*p.b().peek(expect) != nullptr);
    CHECK_FALSE(*p.a().send(data.data(), 9000, callNumber(1)));  // peeked at, not released
    p.b().release();
    CHECK(p.a().reserve()->size() == p.a().slotBytes());
    CHECK(*p.a().send(data.data(), 9000, callNumber(1)));
    for (int i = 0; i < 4; ++i) CHECK(*p.b().receive(dst, expect));
    CHECK_FALSE(*p.b().receive(dst, expect));
  }
}

TEST_CASE("small messages take no slot: there is room for many, also while the slots are full") {
  ShmPair p(Ends::Threads, 2, 9000);
  const auto data = pattern(9000, 1);
  std::byte dst[9000];
  for (const size_t small : {size_t{0}, size_t{96}, size_t{97}, size_t{1024}}) {
    for (int i = 0; i < 2; ++i) CHECK(*p.a().send(data.data(), 9000, callNumber(1)));
    for (uint32_t i = 2; i < shm::kLines; ++i) CHECK(*p.a().send(data.data(), small, callNumber(i)));
    CHECK_FALSE(*p.a().send(nullptr, 0, callNumber(99)));
    for (int i = 0; i < 2; ++i) CHECK(*p.b().receive(dst, {9000, callNumber(1)}));
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

TEST_CASE("a message built in reserved memory arrives like a sent one") {
  ShmPair p;
  for (const size_t bytes : {size_t{0}, size_t{8}, size_t{33}, size_t{1000}}) {
    const auto data = pattern(bytes, 3);
    const auto room = *p.a().reserve();
    REQUIRE(room.size() == 1000);
    CHECK(reinterpret_cast<uintptr_t>(room.data()) % 64 == 0);
    if (bytes != 0) std::memcpy(room.data(), data.data(), bytes);
    CHECK(*p.a().commit(bytes, callNumber(9)));
    const std::byte* got = *p.b().peek({bytes, callNumber(9)});
    REQUIRE(got != nullptr);
    CHECK((bytes == 0 || std::memcmp(got, data.data(), bytes) == 0));
    CHECK(*p.b().peek({bytes, callNumber(9)}) == got);
    p.b().release();
  }
}

TEST_CASE("a message larger than a slot goes in pieces, by receive and by peek") {
  for (const size_t bytes : {size_t{1001}, size_t{2000}, size_t{9999}, size_t{300'000}}) {
    for (const bool peek : {false, true}) {
      ShmPair p(Ends::Processes, 3, 1000);
      const auto data = pattern(bytes, bytes);
      std::vector<std::byte> dst(bytes);
      const Expect expect{bytes, callNumber(1)};
      bool sent = false, came = false;
      const std::byte* got = nullptr;
      for (int i = 0; i < 1000 && !came; ++i) {
        if (!sent) sent = *p.a().send(data.data(), bytes, callNumber(1));
        CHECK(p.b().pending().has_value() == (i == 0));  // what was asked for is asked for with all its pieces
        if (peek) {
          came = (got = *p.b().peek(expect)) != nullptr;
        } else {
          came = *p.b().receive(dst.data(), expect);
          got = dst.data();
        }
      }
      REQUIRE(came);
      CHECK(std::memcmp(got, data.data(), bytes) == 0);
      p.b().release();
      CHECK(passOne(p.a(), p.b(), data.data(), 999, 2, peek) == "");
    }
  }
}

TEST_CASE("memory is offered where it lies, by each of the three ways") {
  struct Row {
    const char* way;
    Ends ends;
    bool allocated, cma, can;
  };
  const auto row = GENERATE(values<Row>({
      {"a thread's pointer", Ends::Threads, false, false, true},
      {"a mapping of tuttiMemAlloc memory", Ends::Processes, true, false, true},
      {"process_vm_readv", Ends::Processes, false, true, true},
      {"none", Ends::Processes, false, false, false},
  }));
  CAPTURE(row.way);
  ShmPair p(row.ends, 4, 1000, row.cma);
  constexpr size_t kBytes = 200'001;
  std::vector<std::byte> plain(kBytes);
  void* allocated = *hostAlloc(kBytes);
  std::byte* memory = row.allocated ? static_cast<std::byte*>(allocated) : plain.data();
  const auto data = pattern(kBytes, 5);
  std::memcpy(memory, data.data(), kBytes);
  REQUIRE(p.a().canOffer(memory, kBytes) == row.can);
  CHECK(p.a().offersMapped(memory, kBytes) == row.allocated);
  const size_t offsets[] = {0, 1, 777, kBytes - 5};
  for (const size_t offset : offsets) {
    const size_t bytes = kBytes - offset;
    for (const bool peek : {false, true}) {
      const Ticket ticket = *p.a().offer(memory + offset, bytes, callNumber(4));
      CHECK((ticket != 0) == row.can);
      if (ticket == 0) continue;
      CHECK_FALSE(*p.a().taken(ticket));
      const Expect expect{bytes, callNumber(4)};
      std::vector<std::byte> dst(bytes);
      if (peek) {
        auto got = p.b().peek(expect);
        REQUIRE(got.status().message() == "");
        CHECK(std::memcmp(*got, data.data() + offset, bytes) == 0);
        CHECK((row.ends == Ends::Processes || *got == memory + offset));
        p.b().release();
      } else {
        auto got = p.b().receive(dst.data(), expect);
        REQUIRE(got.status().message() == "");
        CHECK(std::memcmp(dst.data(), data.data() + offset, bytes) == 0);
      }
      CHECK(*p.a().taken(ticket));
    }
  }
  CHECK(p.exchange.numServed() == (row.allocated ? 3 : 2));
  CHECK(hostFree(allocated).ok());
  p.channel[0].reset();
  p.channel[1].reset();
  p.transport[0].reset();
  p.transport[1].reset();
  CHECK(p.exchange.numServed() == 0);
}

TEST_CASE("an allocation is fetched once, and descriptors of freed ones do not pile up") {
  ShmPair p(Ends::Processes, 4, 1000, false);
  const int before = p.exchange.fetches();
  for (int i = 0; i < 20; ++i) {
    auto* memory = static_cast<std::byte*>(*hostAlloc(5000));
    for (int k = 0; k < 3; ++k) {
      CHECK(*p.a().offer(memory + k, 4000, callNumber(1)) != 0);
      CHECK(*p.b().peek({4000, callNumber(1)}) != nullptr);
      p.b().release();
    }
    CHECK(hostFree(memory).ok());
  }
  CHECK(p.exchange.fetches() == before + 20);
  CHECK(p.exchange.numServed() == 3);
}

TEST_CASE("withdraw waits for a reader of this process, and later readers get an error") {
  ShmPair p;
  std::byte memory[64] = {};
  CHECK(*p.a().offer(memory, 64, callNumber(1)) != 0);
  CHECK(*p.a().offer(memory, 64, callNumber(2)) != 0);
  CHECK(*p.b().peek({64, callNumber(1)}) == memory);
  std::atomic<bool> withdrawn{false};
  std::thread owner([&] {
    p.a().withdraw();
    withdrawn = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(withdrawn);
  p.b().release();
  owner.join();
  auto late = p.b().peek({64, callNumber(2)});
  CHECK(late.status().code() == tuttiRemoteError);
  CHECK(*p.a().offer(memory, 64, callNumber(3)) == 0);
}

TEST_CASE("withdraw and a busy reader never overlap") {
  // The reader must not see the value that the owner writes after withdraw() has returned.
  for (int round = 0; round < 200; ++round) {
    ShmPair p(Ends::Threads, 2, 64);
    std::vector<std::byte> memory(4096, std::byte{1});
    std::string wrong;
    std::thread reader([&] {
      std::vector<std::byte> dst(4096);
      for (int i = 0; i < 100'000; ++i) {
        auto got = p.b().receive(dst.data(), {4096, callNumber(1)});
        if (!got.ok()) return;
        if (*got && (dst.front() != std::byte{1} || dst.back() != std::byte{1})) wrong = "read after withdraw";
        if (*got) return;
      }
    });
    (void)p.a().offer(memory.data(), memory.size(), callNumber(1));
    for (int spin = 0; spin < round; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
    p.a().withdraw();
    std::memset(memory.data(), 2, memory.size());
    reader.join();
    CHECK(wrong == "");
  }
}

TEST_CASE("a message of another call or size is refused, in words and for good") {
  const Fingerprint mine = makeFingerprint({.sequence = 17, .kind = 0, .dtype = tuttiFloat32, .count = 4});
  struct Row {
    Fingerprint call;
    size_t bytes;
  };
  for (const Row& row :
       {Row{mine, 20}, Row{makeFingerprint({.sequence = 18, .kind = 0, .count = 4}), 16},
        Row{makeFingerprint({.sequence = 17, .kind = 0, .dtype = tuttiFloat32, .count = 5}), 16}, Row{mine, 2000}}) {
    ShmPair p;
    const auto data = pattern(row.bytes, 1);
    REQUIRE(p.a().send(data.data(), row.bytes, row.call).ok());
    CHECK(*p.b().pending() == row.call);
    auto refused = p.b().peek({16, mine});
    CHECK(refused.status().code() == tuttiInvalidUsage);
    const std::string& text = refused.status().message();
    CHECK(text.find(describeCall(mine)) != std::string::npos);
    CHECK(text.find(describeCall(row.call)) != std::string::npos);
    CHECK(text.find(cat(row.bytes, " bytes")) != std::string::npos);
    CHECK(p.b().seen() == row.call);
    CHECK(p.b().pending().has_value());
    std::byte dst[16];
    CHECK(p.b().receive(dst, {16, mine}).status().message() == text);
    CHECK(p.b().send(dst, 16, mine).status().message() == text);
  }
}

TEST_CASE("pending tells what has come and was not asked for") {
  ShmPair p;
  CHECK_FALSE(p.b().pending());
  for (uint64_t n : {1, 2, 3}) REQUIRE(*p.a().send(nullptr, 0, callNumber(n)));
  for (uint64_t n : {1, 2, 3}) {
    CHECK(*p.b().pending() == callNumber(n));
    REQUIRE(*p.b().receive(nullptr, {0, callNumber(n)}));
  }
  CHECK_FALSE(p.b().pending());
}

TEST_CASE("two threads exchange messages of all kinds as fast as they can, while a third asks what is pending") {
  const size_t slotBytes = GENERATE(4096, 30'000);
  ShmPair p(Ends::Threads, 4, slotBytes);
  std::atomic<bool> done{false};
  const auto rank = [&](Channel& c, uint64_t seed) -> std::string {
    std::vector<std::byte> in(28'200);
    for (uint64_t n = 0; n < 2000; ++n) {
      const size_t bytes = n * 577 % 28'200;
      const auto out = pattern(bytes, n + seed);
      const bool offer = n % 3 == 0 && bytes > 0;
      Ticket ticket = 0;
      bool sent = false, received = false;
      for (int tries = 0; !(sent && received); ++tries) {
        if (!sent && offer) sent = (ticket = *c.offer(out.data(), bytes, callNumber(n))) != 0;
        if (!sent && !offer) sent = *c.send(out.data(), bytes, callNumber(n));
        if (!received && n % 2 == 0) {
          auto got = c.receive(in.data(), {bytes, callNumber(n)});
          if (!got.ok()) return got.status().message();
          received = *got;
        } else if (!received) {
          auto got = c.peek({bytes, callNumber(n)});
          if (!got.ok()) return got.status().message();
          received = *got != nullptr;
          if (received && bytes != 0) std::memcpy(in.data(), *got, bytes);
          c.release();
        }
        if (tries % 64 == 63) std::this_thread::yield();
      }
      if (bytes != 0 && std::memcmp(in.data(), pattern(bytes, n + 1 - seed).data(), bytes) != 0)
        return cat("bytes ", n);
      while (ticket != 0 && !*c.taken(ticket)) std::this_thread::yield();
    }
    return "";
  };
  std::string wrong[2];
  std::thread one([&] { wrong[1] = rank(p.b(), 1); });
  std::thread asker([&] {
    while (!done) {
      (void)p.b().pending();
      std::this_thread::yield();
    }
  });
  wrong[0] = rank(p.a(), 0);
  one.join();
  done = true;
  asker.join();
  CHECK(wrong[0] == "");
  CHECK(wrong[1] == "");
}

TEST_CASE("a sleeping rank is woken by a message and by a returned credit") {
  ShmPair p(Ends::Threads, 2);
  std::string wrong;
  const auto sleepUntil = [&](Sleeper& s, auto ready) {
    // A missed ring costs 100 ms; without any ring this would take 100 s.
    for (int i = 0; i < 1000; ++i) {
      s.prepare();
      if (ready()) {
        s.cancel();
        return true;
      }
      s.sleep(100'000);
    }
    return false;
  };
  std::thread one([&] {
    for (int i = 0; i < 100 && wrong.empty(); ++i) {
      if (!sleepUntil(*p.transport[1]->sleeper(), [&] { return *p.b().receive(nullptr, {0, callNumber(1)}); })) {
        wrong = "not woken by a message";
      }
    }
  });
  bool credit = true;
  for (int i = 0; i < 100; ++i) {
    credit &= sleepUntil(*p.transport[0]->sleeper(), [&] { return *p.a().send(nullptr, 0, callNumber(1)); });
  }
  one.join();
  CHECK(wrong == "");
  CHECK(credit);
}

TEST_CASE("sleeping without a ring ends by itself") {
  ShmPair p;
  Sleeper& s = *p.transport[0]->sleeper();
  s.prepare();
  s.sleep(1000);
  s.prepare();
  s.cancel();
  s.prepare();
  s.sleep(0);
}

TEST_CASE("pieces of a large output are stored past the cache, whole and within their bounds") {
  const size_t before = streamingThreshold();
  setStreamingThreshold(1 << 20);
  ShmPair p(Ends::Threads, 4, 65536);
  const auto data = pattern(200'001, 9);
  uint64_t n = 0;
  for (const size_t bytes : {size_t{5000}, size_t{50'001}, size_t{65'536}, size_t{200'001}}) {
    CAPTURE(bytes);
    ++n;
    std::vector<std::byte> dst(bytes + 4, std::byte{0x5a});
    bool came = false;
    for (bool sent = false; !came;) {
      if (!sent) sent = *p.a().send(data.data(), bytes, callNumber(n));
      came = *p.b().receive(dst.data() + 3, {bytes, callNumber(n), size_t{1} << 30});
    }
    CHECK(std::memcmp(dst.data() + 3, data.data(), bytes) == 0);
    CHECK((dst[2] == std::byte{0x5a} && dst.back() == std::byte{0x5a}));
  }
  setStreamingThreshold(before);
}
