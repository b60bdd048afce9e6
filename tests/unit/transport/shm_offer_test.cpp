// Memory that is read where it lies, and taken back; ranks that sleep until a message or a credit comes.
#include <random>
#include <thread>

#include "src/base/copy.hpp"
#include "src/device/host/host_memory.hpp"
#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/layout.hpp"

using namespace tutti;
using namespace tutti::test;

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
      const Request request = *p.a().postSend(memory + offset, bytes, callNumber(4));
      CHECK((request < kSendInLine) == row.can);  // else it goes by slots when there is room
      if (!row.can) break;
      CHECK_FALSE(*p.a().test(request));
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
      CHECK(*p.a().test(request));
    }
  }
  CHECK(p.exchange.numServed() == (row.allocated ? 3 : 2));
  CHECK(hostFree(allocated).ok());
  p.endpoint[0].reset();
  p.endpoint[1].reset();
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
      CHECK(*p.a().postSend(memory + k, 4000, callNumber(1)) != 0);
      CHECK(*p.b().peek({4000, callNumber(1)}) != nullptr);
      p.b().release();
    }
    CHECK(hostFree(memory).ok());
  }
  CHECK(p.exchange.fetches() == before + 20);
  CHECK(p.exchange.numServed() == 3);
}

TEST_CASE("cancel waits for a reader of this process, and later readers get an error") {
  ShmPair p;
  std::byte memory[64] = {};
  CHECK(*p.a().postSend(memory, 64, callNumber(1)) != 0);
  CHECK(*p.a().postSend(memory, 64, callNumber(2)) != 0);
  CHECK(*p.b().peek({64, callNumber(1)}) == memory);
  std::atomic<bool> withdrawn{false};
  std::thread owner([&] {
    p.a().cancel();
    withdrawn = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(withdrawn);
  p.b().release();
  owner.join();
  auto late = p.b().peek({64, callNumber(2)});
  CHECK(late.status().code() == tuttiRemoteError);
  CHECK(*p.a().postSend(memory, 64, callNumber(3)) == 0);
}

TEST_CASE("cancel and a busy reader never overlap") {
  // The reader must not see the value that the owner writes after cancel() has returned.
  for (int round = 0; round < 200; ++round) {
    ShmPair p(Ends::Threads, 2, 64);
    std::vector<std::byte> memory(4096, std::byte{1});
    std::string wrong;
    std::thread reader([&] {
      std::vector<std::byte> dst(4096);
      for (int i = 0; i < 100'000; ++i) {
        auto got = p.b().receive(dst.data(), {4096, callNumber(1)});
        if (!got.ok()) return;
        if (*got && (dst.front() != std::byte{1} || dst.back() != std::byte{1})) wrong = "read after cancel";
        if (*got) return;
      }
    });
    (void)p.a().postSend(memory.data(), memory.size(), callNumber(1));
    for (int spin = 0; spin < round; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
    p.a().cancel();
    std::memset(memory.data(), 2, memory.size());
    reader.join();
    CHECK(wrong == "");
  }
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
