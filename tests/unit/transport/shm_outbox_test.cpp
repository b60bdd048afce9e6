// Outboxes: one message to several peers, written once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/layout.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kSlots = 4;
constexpr size_t kSlotBytes = 1000;

/// Rank 0 sends to all others.
struct SenderTo {
  explicit SenderTo(int nRanks) {
    for (int rank = 0; rank < nRanks; ++rank) {
      ShmConfig config;
      config.self.rank = rank;
      config.self.processId = static_cast<uint64_t>(rank) + 1;
      config.nRanks = nRanks;
      config.slots = kSlots;
      config.slotBytes = kSlotBytes;
      transports.push_back(std::move(*createShmTransport(config, exchange)));
    }
    for (int rank = 1; rank < nRanks; ++rank) {
      const auto deadline = Deadline::inMs(1000);
      auto& other = transports[static_cast<size_t>(rank)];
      out.push_back(std::move(*awaitEndpoint(*transports[0], rank, other->address(), 0, deadline)));
      in.push_back(std::move(*awaitEndpoint(*other, 0, transports[0]->address(), 0, deadline)));
    }
  }
  LocalExchange exchange;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<Endpoint>> out;
  std::vector<std::unique_ptr<Endpoint>> in;
};

size_t bytesOf(uint64_t n) { return n * 7919 % (kSlotBytes + 1); }

/// What is on its way to one reader.
struct ReaderOf {
  std::vector<uint64_t> messages;
  size_t taken = 0;
  bool waits() const { return taken < messages.size(); }
};

/// The next message of a reader, by receive() and peek() in turn; "" or what was wrong.
std::string takeNext(Endpoint& endpoint, ReaderOf* reader, const std::vector<std::byte>& data) {
  const uint64_t n = reader->messages[reader->taken++];
  const Expect expect{bytesOf(n), callNumber(n)};
  std::vector<std::byte> got(kSlotBytes + 1);
  if (n % 2 == 0) {
    const Result<bool> came = endpoint.receive(got.data(), expect);
    if (!came.ok() || !*came) return cat("message ", n, " is not there: ", came.status().message());
  } else {
    const Result<const std::byte*> message = endpoint.peek(expect);
    if (!message.ok() || *message == nullptr) return cat("message ", n, " is not there: ", message.status().message());
    std::copy_n(*message, expect.bytes, got.begin());
    endpoint.release();
  }
  const bool same = std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(expect.bytes),
                               data.begin() + static_cast<std::ptrdiff_t>(n % 64));
  return same ? "" : cat("message ", n, " has other bytes");
}

}  // namespace

TEST_CASE("messages to some and to one, read at any pace, keep their order and their bytes") {
  SenderTo s(4);
  Outbox& outbox = *s.out[0]->outbox();
  for (const auto& endpoint : s.out) REQUIRE(endpoint->outbox() == &outbox);
  const auto data = pattern(kSlotBytes + 64, 5);
  std::mt19937 random(2);
  std::vector<ReaderOf> readers(3);
  int shared = 0;
  int full = 0;
  for (uint64_t n = 0; n < 4000; ++n) {
    std::vector<size_t> to;
    for (size_t r = 0; r < readers.size(); ++r) {
      if (random() % 3 != 0) to.push_back(r);
    }
    std::byte* room = *outbox.reserve(bytesOf(n));
    full += room == nullptr;
    if (room != nullptr) std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(n % 64), bytesOf(n), room);
    for (const size_t r : to) {
      const auto attempt = [&] {
        return room != nullptr ? *outbox.post(*s.out[r], bytesOf(n), callNumber(n))
                               : *s.out[r]->send(data.data() + n % 64, bytesOf(n), callNumber(n));
      };
      while (!attempt()) {
        REQUIRE(readers[r].waits());  // nobody but the reader of the message holds it up
        REQUIRE(takeNext(*s.in[r], &readers[r], data) == "");
      }
      readers[r].messages.push_back(n);
      shared += room != nullptr;
    }
    for (size_t r = 0; r < readers.size(); ++r) {
      while (readers[r].waits() && random() % 3 == 0) REQUIRE(takeNext(*s.in[r], &readers[r], data) == "");
    }
  }
  CHECK(shared > 1000);
  CHECK(full > 100);
  for (size_t r = 0; r < readers.size(); ++r) {
    while (readers[r].waits()) REQUIRE(takeNext(*s.in[r], &readers[r], data) == "");
    CHECK(*s.in[r]->peek({0, callNumber(0)}) == nullptr);
  }
}

TEST_CASE("an outbox is worth waiting for while a receiver has all its slots to take, and not for others' sake") {
  SenderTo s(4);
  Outbox& outbox = *s.out[0]->outbox();
  Endpoint* const both[] = {s.out[0].get(), s.out[1].get()};
  Endpoint* const other[] = {s.out[2].get()};
  const auto fill = [&](uint64_t n, std::span<Endpoint* const> to) {
    std::byte* room = *outbox.reserve(kSlotBytes);
    if (room == nullptr) return false;
    std::memset(room, static_cast<int>(n), kSlotBytes);
    for (Endpoint* endpoint : to) REQUIRE(*outbox.post(*endpoint, kSlotBytes, callNumber(n)));
    return true;
  };
  uint64_t held = 0;
  while (fill(held, both)) ++held;
  CHECK(held >= kSlots);  // as much as any reader's own slots
  CHECK(outbox.holdsUp(both) == 0);
  CHECK(outbox.holdsUp(other) == -1);
  std::byte got[kSlotBytes];
  const auto take = [&](size_t reader, uint64_t n) {
    REQUIRE(*s.in[reader]->receive(got, {kSlotBytes, callNumber(n)}));
    CHECK(got[kSlotBytes - 1] == static_cast<std::byte>(n));
  };
  for (uint64_t n = 0; n < held; ++n) take(0, n);
  CHECK(*outbox.reserve(kSlotBytes) == nullptr);  // the second one still reads them
  CHECK(outbox.holdsUp(both) == 1);
  take(1, 0);
  CHECK(outbox.holdsUp(both) == (held > kSlots ? 1 : -1));
  CHECK(fill(held, other));
  take(2, held);
}

TEST_CASE("readers in threads of their own") {
  SenderTo s(4);
  constexpr uint64_t kMessages = 5000;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (const auto& endpoint : s.in) {
    threads.emplace_back([&wrong, endpoint = endpoint.get()] {
      std::vector<std::byte> got(kSlotBytes);
      for (uint64_t n = 0; n < kMessages && !wrong;) {
        const Result<bool> came = endpoint->receive(got.data(), {bytesOf(n), callNumber(n)});
        if (!came.ok()) wrong = true;
        if (came.ok() && !*came) std::this_thread::yield();
        if (!came.ok() || !*came) continue;
        for (size_t i = 0; i < bytesOf(n); ++i) wrong = wrong || got[i] != static_cast<std::byte>(n);
        ++n;
      }
    });
  }
  Outbox& outbox = *s.out[0]->outbox();
  for (uint64_t n = 0; n < kMessages && !wrong; ++n) {
    std::byte* room = *outbox.reserve(bytesOf(n));
    for (; room == nullptr && !wrong; room = *outbox.reserve(bytesOf(n))) std::this_thread::yield();
    if (room == nullptr) break;
    std::memset(room, static_cast<int>(n), bytesOf(n));
    for (const auto& endpoint : s.out) {
      while (!wrong && !*outbox.post(*endpoint, bytesOf(n), callNumber(n))) std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
}
