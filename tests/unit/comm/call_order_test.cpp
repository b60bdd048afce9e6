// Tickets of a communicator's calls: in order, one at a time, and nobody sleeps for ever.
#include "src/comm/call_order.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr uint64_t kTickets = 30'000;

// A finish() that does not see a waiter leaves it asleep: the test would never end.
TEST_CASE("threads have their turns in the order of their tickets, with some that give theirs up") {
  for (const uint64_t nThreads : {2, 3, 5}) {
    CallOrder order;
    std::atomic<bool> inside{false};
    std::atomic<uint64_t> wrong{0}, served{0}, skipped{0};
    uint64_t last = 0;  // by who has the turn
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < nThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < kTickets / nThreads; ++i) {
          const uint64_t ticket = order.take();
          if ((i * 7 + t) % 11 == 0) {
            ++skipped;
            order.skip(ticket);
            continue;
          }
          order.await(ticket);
          if (inside.exchange(true) || ticket < last) ++wrong;
          last = ticket;
          ++served;
          inside.store(false);
          order.finish(ticket);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    order.drain();
    CHECK(wrong == 0);
    CHECK(served + skipped == kTickets / nThreads * nThreads);
  }
}

}  // namespace
}  // namespace tutti
