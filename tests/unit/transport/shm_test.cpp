#include <sys/mman.h>

#include <random>
#include <thread>

#include "src/device/host_memory.hpp"
#include "src/device/shared_memory.hpp"
#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/segment.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

// Sends one message and receives it at the other end; "" or what was wrong.
std::string passOne(Channel& from, Channel& to, const std::byte* data, size_t bytes, uint64_t n, bool peek) {
  auto sent = from.send(data, bytes, callNumber(n));
  if (!sent.ok() || !*sent) return cat("send ", n, ": ", sent.status().message());
  const Expect expect{bytes, callNumber(n)};
  if (peek) {
    auto got = to.peek(expect);
    if (!got.ok() || *got == nullptr) return cat("peek ", n, ": ", got.status().message());
    if (bytes != 0 && std::memcmp(*got, data, bytes) != 0) return cat("peek ", n, ": wrong bytes");
    to.release();
    return "";
  }
  // A frame around the destination: nothing but [1, bytes] may be written.
  std::vector<std::byte> dst(bytes + 2, std::byte{0x5a});
  auto got = to.receive(dst.data() + 1, expect);
  if (!got.ok() || !*got) return cat("receive ", n, ": ", got.status().message());
  if (dst.front() != std::byte{0x5a} || dst.back() != std::byte{0x5a}) return cat("receive ", n, ": wrote outside");
  if (bytes != 0 && std::memcmp(dst.data() + 1, data, bytes) != 0) return cat("receive ", n, ": wrong bytes");
  return "";
}

uint64_t residentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  unsigned long total = 0, resident = 0;
  if (std::fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  std::fclose(file);
  return uint64_t{resident} * 4096;
}

}  // namespace

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

TEST_CASE("messages stay in order over thousands of wrap-arounds, with any number of them on their way") {
  for (const size_t slots : {size_t{2}, size_t{3}, size_t{4}, size_t{7}}) {
    ShmPair p(Ends::Threads, slots, 256);
    std::mt19937 random(static_cast<unsigned>(slots));
    uint64_t sent = 0, received = 0;
    std::string wrong;
    const auto sizeOf = [](uint64_t n) { return static_cast<size_t>(n * 37 % 257); };
    while (received < 5000 && wrong.empty()) {
      const bool room = sent - received < slots;
      if (random() % 2 == 0) {
        const bool gone = *p.a().send(pattern(sizeOf(sent), sent).data(), sizeOf(sent), callNumber(sent));
        if (gone != room) wrong = cat("message ", sent, ": room ", room, " but sent ", gone);
        sent += gone;
      } else {
        std::byte dst[256];
        const bool came = *p.b().receive(dst, {sizeOf(received), callNumber(received)});
        if (came != (sent > received)) wrong = cat("message ", received, ": came ", came);
        if (came && std::memcmp(dst, pattern(sizeOf(received), received).data(), sizeOf(received)) != 0) {
          wrong = cat("message ", received, ": wrong bytes");
        }
        received += came;
      }
    }
    CHECK(wrong == "");
  }
}

TEST_CASE("credits run out after `slots` messages and come back one by one") {
  ShmPair p(Ends::Threads, 4);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) CHECK(*p.a().send(nullptr, 0, callNumber(1)));
    CHECK_FALSE(*p.a().send(nullptr, 0, callNumber(1)));
    CHECK(p.a().reserve()->empty());
    CHECK(*p.a().offer(reinterpret_cast<const std::byte*>("x"), 1, callNumber(1)) == 0);
    CHECK(*p.b().peek({0, callNumber(1)}) != nullptr);
    CHECK_FALSE(*p.a().send(nullptr, 0, callNumber(1)));  // peeked at, not released
    p.b().release();
    CHECK(p.a().reserve()->size() == p.a().slotBytes());
    CHECK(*p.a().send(nullptr, 0, callNumber(1)));
    for (int i = 0; i < 4; ++i) CHECK(*p.b().receive(nullptr, {0, callNumber(1)}));
    CHECK_FALSE(*p.b().receive(nullptr, {0, callNumber(1)}));
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

TEST_CASE("a segment that is not as it should be is refused") {
  using namespace tutti::shm;
  const Layout layout = *Layout::fit(2, 3, 4, 1000);
  const auto made = *Segment::create(1, layout);
  const auto openCopy = [&](auto change) {
    // Another file with the same first page: the table of this process does not know its id.
    Fd fd = *createSharedMemory(layout.totalBytes());
    Mapping mapping = *Mapping::of(fd.get(), layout.totalBytes());
    std::memcpy(mapping.data(), &made->header(), sizeof(SegmentHeader));
    auto* header = reinterpret_cast<SegmentHeader*>(mapping.data());
    header->id.low ^= 1;
    const SegmentId id = header->id;
    change(*header);
    return Segment::open(id, 1, layout, [&]() -> Result<Fd> { return std::move(fd); }).status();
  };
  CHECK(openCopy([](SegmentHeader&) {}).message() == "");
  CHECK(openCopy([](SegmentHeader& h) { h.magic++; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.version++; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.rank = 0; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.layout.slots = 5; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.layout.slotBytes = 1 << 30; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.id.high++; }).code() == tuttiRemoteError);

  const auto openFd = [&](Fd fd) {
    return Segment::open({1, 2}, 1, layout, [&]() -> Result<Fd> { return std::move(fd); }).status();
  };
  CHECK(openFd(*createSharedMemory(4096)).message().find("TUTTI_SLOT") != std::string::npos);
  Fd unsealed(memfd_create("test", MFD_CLOEXEC));
  CHECK(openFd(std::move(unsealed)).code() == tuttiInvalidUsage);
}

TEST_CASE("a control line that cannot be is refused") {
  using namespace tutti::shm;
  // A test's own handle on the segment of rank 1, where rank 0's messages land.
  const auto scribble = [](ShmPair& p, Kind kind, uint64_t bytes, DirectPayload place) {
    SegmentId id;
    std::memcpy(&id, p.transport[1]->address().data() + sizeof(uint64_t), sizeof id);
    const Layout layout = *Layout::fit(2, 3, 4, 1000);
    const auto segment = *Segment::open(id, 1, layout, []() -> Result<Fd> { return internalError("no such segment"); });
    ControlLine& line = segment->inbox(0, 0).line(0);
    line.kindAndBytes = (static_cast<uint64_t>(kind) << 56) | bytes;
    line.callHead = callNumber(1).head;
    line.callCount = callNumber(1).count;
    std::memcpy(line.payload, &place, sizeof place);
    line.sequence = 1;
    return p.b().peek({bytes, callNumber(1)}).status().code();
  };
  void* memory = *hostAlloc(5000);
  const AllocationId id = hostLookup(memory, 1)->id;
  struct Row {
    Ends ends;
    Kind kind;
    uint64_t bytes;
    DirectPayload place;
  };
  for (const Row& row : {Row{Ends::Threads, Kind::Inline, 33, {}}, Row{Ends::Threads, Kind::Slot, 1001, {}},
                         Row{Ends::Threads, Kind::Piece, 1000, {}}, Row{Ends::Threads, Kind{0}, 1, {}},
                         Row{Ends::Threads, Kind{200}, 1, {}}, Row{Ends::Processes, Kind::Address, 1, {0, 0, 8}},
                         Row{Ends::Threads, Kind::Pull, 1, {0, 0, 8}}, Row{Ends::Processes, Kind::Pull, 1, {0, 0, 8}},
                         Row{Ends::Processes, Kind::Mapped, 5000, {id.high, id.low, 4000}},
                         Row{Ends::Processes, Kind::Mapped, 50, {id.high, id.low, ~uint64_t{0} - 10}}}) {
    CAPTURE(static_cast<int>(row.kind), row.bytes);
    ShmPair p(row.ends);
    Fd fd = *hostShare(id);
    REQUIRE(p.exchange.serve(cat("mem:", toHex(&id, sizeof id)), fd.get()).ok());
    CHECK(scribble(p, row.kind, row.bytes, row.place) == tuttiRemoteError);
  }
  CHECK(hostFree(memory).ok());
}

TEST_CASE("connecting to what is not there fails by its deadline, and each lane connects once") {
  ShmPair p;
  auto again = p.transport[0]->connect(1, p.transport[1]->address(), 0, Deadline::inMs(100));
  CHECK(again.status().code() == tuttiInternalError);
  CHECK(p.transport[0]->connect(0, p.transport[0]->address(), 1, Deadline::inMs(100)).status().code() != tuttiSuccess);
  CHECK(p.transport[0]->connect(1, "short", 1, Deadline::inMs(100)).status().code() == tuttiRemoteError);
  CHECK(p.transport[0]->connect(1, p.transport[1]->address(), 3, Deadline::inMs(100)).status().code() != tuttiSuccess);
  ShmPair other;
  Address nowhere = other.transport[1]->address();
  nowhere[8] = static_cast<char>(nowhere[8] ^ 1);
  CHECK(other.transport[0]->connect(1, nowhere, 1, Deadline::inMs(20)).status().message() == "");  // known peer
  ShmConfig config;
  config.nRanks = 2;
  config.lanes = 3;
  config.slotBytes = 1000;
  auto lonely = *createShmTransport(config, other.exchange);
  CHECK(lonely->connect(1, nowhere, 1, Deadline::inMs(20)).status().code() == tuttiTimeout);
}

TEST_CASE("transports reach ranks of the same host and user") {
  ShmPair p;
  const PeerInfo self{.rank = 0, .hostId = 5, .processId = 1, .pid = 2, .uid = 3};
  struct Row {
    PeerInfo peer;
    bool reached;
  };
  for (const Row& row : {Row{{1, 5, 1, 2, 3}, true}, Row{{1, 5, 9, 9, 3}, true}, Row{{1, 6, 1, 2, 3}, false},
                         Row{{1, 5, 1, 2, 4}, false}, Row{{0, 5, 1, 2, 3}, false}}) {
    CHECK(p.transport[0]->reaches(self, row.peer) == row.reached);
  }
}

TEST_CASE("only what is used of a segment takes memory") {
  LocalExchange exchange;
  ShmConfig config;
  config.nRanks = 256;
  const uint64_t before = residentBytes();
  auto first = *createShmTransport(config, exchange);
  config.self.rank = 1;
  auto second = *createShmTransport(config, exchange);
  const uint64_t idle = residentBytes() - before;
  auto a = *first->connect(1, second->address(), 0, Deadline::inMs(100));
  auto b = *second->connect(0, first->address(), 0, Deadline::inMs(100));
  const uint64_t connected = residentBytes() - before;
  const auto data = pattern(a->slotBytes(), 1);
  for (uint64_t i = 0; i < 8; ++i) {
    CHECK(passOne(*a, *b, data.data(), data.size(), i, true) == "");
    CHECK(passOne(*b, *a, data.data(), data.size(), i, true) == "");
  }
  const uint64_t used = residentBytes() - before;
  WARN("256 ranks: segment of " << formatBytes(shm::Layout::fit(256, 64, 4, 128 << 10)->totalBytes() >> 20 << 20)
                                << "; resident: two segments " << (idle >> 10) << " KiB, a connected pair "
                                << (connected >> 10) << " KiB, in full use " << (used >> 10) << " KiB");
  CHECK(connected < (1 << 20));
  CHECK(used < (16 << 20));
}

TEST_CASE("settings that cannot be laid out are refused") {
  using shm::Layout;
  CHECK(Layout::fit(2, 64, 4, 128 << 10)->lanes == 64);
  CHECK(Layout::fit(200, 64, 64, 1 << 26)->lanes == 1);
  CHECK(Layout::fit(1024, 64, 64, 1 << 26).status().code() == tuttiInvalidUsage);
  CHECK(Layout::fit(2, 64, 0, 1000).status().code() == tuttiInvalidUsage);
  CHECK(Layout::fit(2, 64, 4, 0).status().code() == tuttiInvalidUsage);
}
