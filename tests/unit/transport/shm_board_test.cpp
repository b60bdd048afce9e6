// Boards: one rank's messages to all others at once.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/layout.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Rank 0 publishes; all others read.
struct Board {
  std::unique_ptr<Endpoint> publisher;
  std::vector<std::unique_ptr<Endpoint>> readers;
};

/// The boards of a rank; that of values is open.
struct BoardOf : Board {
  explicit BoardOf(int nRanks) {
    for (int rank = 0; rank < nRanks; ++rank) {
      ShmConfig config;
      config.self.rank = rank;
      config.self.processId = static_cast<uint64_t>(rank) + 1;
      config.nRanks = nRanks;
      transports.push_back(std::move(*createShmTransport(config, exchange)));
      addresses.push_back(transports.back()->address());
    }
    static_cast<Board&>(*this) = open(BoardUse::Values);
  }
  Board open(BoardUse use) {
    Board board;
    const Deadline deadline = Deadline::inMs(1000);
    board.publisher = std::move(*awaitValue(*transports[0]->publisher(use, addresses), deadline, "its board"));
    for (size_t rank = 1; rank < transports.size(); ++rank) {
      const PendingEndpoint reader = transports[rank]->subscriber(use, 0, addresses[0]);
      board.readers.push_back(std::move(*awaitValue(*reader, deadline, "the board")));
    }
    return board;
  }
  LocalExchange exchange;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Address> addresses;
};

size_t sizeOf(uint64_t n) { return n * 7 % (kBoardBytes + 1); }

}  // namespace

TEST_CASE("every reader gets every message, each at its own pace, and the sender waits for the slowest") {
  BoardOf board(4);
  const auto data = pattern(kBoardBytes + 64, 3);
  std::mt19937 random(1);
  uint64_t sent = 0;
  std::vector<uint64_t> received(3, 0);
  while (*std::min_element(received.begin(), received.end()) < 2000) {
    const uint64_t slowest = *std::min_element(received.begin(), received.end());
    if (random() % 4 == 0) {
      const bool gone = *board.publisher->send(data.data() + sent % 64, sizeOf(sent), callNumber(sent));
      REQUIRE((gone ? sent - slowest < shm::kLines : sent - slowest > shm::kLines - shm::kLines / 4));
      sent += gone;
      continue;
    }
    const size_t who = random() % received.size();
    const uint64_t n = received[who];
    std::byte dst[kBoardBytes];
    const Expect expect{sizeOf(n), callNumber(n)};
    bool came = false;
    if (n % 2 == 0) {
      came = *board.readers[who]->receive(dst, expect);
    } else if (const std::byte* message = *board.readers[who]->peek(expect)) {
      came = true;
      std::memcpy(dst, message, expect.bytes);
      board.readers[who]->release();
    }
    REQUIRE(came == (n < sent));
    if (came) REQUIRE(std::memcmp(dst, data.data() + n % 64, expect.bytes) == 0);
    received[who] += came;
  }
}

TEST_CASE("a rank's two boards have room and messages of their own") {
  BoardOf values(3);
  const Board figures = values.open(BoardUse::Figures);
  const std::byte value{1}, figure{2};
  uint64_t underWay = 0;
  while (*values.publisher->send(&value, 1, callNumber(underWay))) ++underWay;
  REQUIRE(underWay > 0);
  std::byte got{};
  CHECK_FALSE(*figures.readers[0]->receive(&got, {1, callNumber(1)}));
  for (int i = 0; i < 3; ++i) {
    CHECK(*figures.publisher->send(&figure, 1, callNumber(1)));
    for (const auto& reader : figures.readers) CHECK((*reader->receive(&got, {1, callNumber(1)}) && got == figure));
  }
  for (const auto& reader : values.readers) CHECK((*reader->receive(&got, {1, callNumber(0)}) && got == value));
}

TEST_CASE("what is built in reserved memory is published") {
  BoardOf board(3);
  const auto room = *board.publisher->reserve();
  REQUIRE(room.size() == kBoardBytes);
  std::memset(room.data(), 7, room.size());
  CHECK(*board.publisher->commit(50, callNumber(1)));
  for (const auto& reader : board.readers) {
    const std::byte* message = *reader->peek({50, callNumber(1)});
    REQUIRE(message != nullptr);
    CHECK(message[49] == std::byte{7});
    reader->release();
    CHECK(*reader->peek({50, callNumber(1)}) == nullptr);
  }
}

TEST_CASE("a reader that is in another call, or expects another size, refuses the message and says whose it is") {
  BoardOf board(3);
  const std::byte data[8] = {};
  CHECK(*board.publisher->send(data, 8, callNumber(1)));
  CHECK(board.readers[0]->pending() == callNumber(1));
  const Status other = board.readers[0]->peek({8, callNumber(2)}).status();
  CHECK(other.code() == tuttiInvalidUsage);
  CHECK(other.message().find("rank 0") != std::string::npos);
  CHECK(board.readers[0]->seen() == callNumber(1));
  CHECK(board.readers[0]->peek({8, callNumber(1)}).status().message() == other.message());  // remembered
  CHECK(board.readers[1]->receive(nullptr, {4, callNumber(1)}).status().code() == tuttiInvalidUsage);
}

TEST_CASE("reading and publishing at the same time") {
  BoardOf board(3);
  constexpr uint64_t kMessages = 20'000;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (const auto& reader : board.readers) {
    threads.emplace_back([&wrong, endpoint = reader.get()] {
      for (uint64_t n = 0; n < kMessages && !wrong;) {
        uint64_t value = 0;
        const Result<bool> came = endpoint->receive(reinterpret_cast<std::byte*>(&value), {8, callNumber(n % 100)});
        if (!came.ok() || (*came && value != n)) wrong = true;
        if (came.ok() && *came) ++n;
        if (came.ok() && !*came) std::this_thread::yield();
      }
    });
  }
  for (uint64_t n = 0; n < kMessages && !wrong;) {
    const auto* value = reinterpret_cast<const std::byte*>(&n);
    if (*board.publisher->send(value, 8, callNumber(n % 100))) {
      ++n;
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
}
