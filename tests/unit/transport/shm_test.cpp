// Messages of every size and way between two ranks: whole, in order, refused where they are not what was asked for.
#include <random>
#include <thread>

#include "src/base/copy.hpp"
#include "src/device/host/host_memory.hpp"
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
  const auto rank = [&](Endpoint& c, uint64_t seed) -> std::string {
    std::vector<std::byte> in(28'200);
    for (uint64_t n = 0; n < 2000; ++n) {
      const size_t bytes = n * 577 % 28'200;
      const auto out = pattern(bytes, n + seed);
      const bool offer = n % 3 == 0 && bytes > 0;
      Request request = 0;
      bool sent = false, received = false;
      for (int tries = 0; !(sent && received); ++tries) {
        if (!sent && offer) sent = (request = *c.postSend(out.data(), bytes, callNumber(n))) != 0;
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
      while (request != 0 && !*c.test(request)) std::this_thread::yield();
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
