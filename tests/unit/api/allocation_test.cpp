// A call that finds its plan allocates nothing: this program's operator new counts, per thread.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/support/ranks.hpp"

namespace {
thread_local size_t allocations = 0;
}

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

using namespace tutti::test;

TEST_CASE("a call that finds its plan allocates nothing") {
  const char* transports = GENERATE("shm,self", "tcp,self");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = transports;
  CAPTURE(transports);
  CHECK(onRanks(
            3,
            [](const Rank& r) {
              std::vector<float> x(100000, 1), y(300000);
              const auto everything = [&]() -> std::string {
                for (const size_t count : {1, 1000, 100000}) {
                  RANK_TRY(tuttiAllReduce(x.data(), y.data(), count, tuttiFloat32, tuttiMax, r.comm, nullptr));
                  RANK_TRY(tuttiAllGather(x.data(), y.data(), count, tuttiFloat32, r.comm, nullptr));
                  RANK_TRY(tuttiReduceScatter(y.data(), x.data(), count / 3, tuttiFloat32, tuttiMax, r.comm, nullptr));
                  RANK_TRY(tuttiAllToAll(y.data(), x.data(), count / 3, tuttiFloat32, r.comm, nullptr));
                  RANK_TRY(tuttiBroadcast(x.data(), x.data(), count, tuttiFloat32, 1, r.comm, nullptr));
                  RANK_TRY(tuttiReduce(x.data(), y.data(), count, tuttiFloat32, tuttiMax, 2, r.comm, nullptr));
                }
                RANK_TRY(tuttiBarrier(r.comm, nullptr));
                return "";
              };
              for (int warm = 0; warm < 3; ++warm) {
                if (std::string why = everything(); !why.empty()) return why;
              }
              const size_t before = allocations;
              if (std::string why = everything(); !why.empty()) return why;
              const size_t made = allocations - before;
              return made == 0 ? std::string() : std::to_string(made) + " allocations";
            },
            &config) == "");
}
