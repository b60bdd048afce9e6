// A call that finds its plan allocates nothing: this program's operator new counts, per thread.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

#include "src/base/folder.hpp"
#include "src/base/threads.hpp"
#include "tests/support/plan_texts.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

namespace {
thread_local size_t allocations = 0;
thread_local size_t failing = 0;  // the one that fails, by its number; 0: none
}  // namespace

void* operator new(size_t bytes) {
  if (++allocations == failing) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

using namespace tutti::test;

namespace {

/// What a round of calls allocates that no wait of some 20 ms disturbed: then ranks ask each other what they do, which
/// takes memory.  So the least of several rounds.
constexpr int kRounds = 10;

}  // namespace

TEST_CASE("a call that finds its plan allocates nothing") {
  const Variable wait("TUTTI_WAIT",
                      "yield");  // by load, a wait beside other programs reads what /proc says of the core
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
              size_t made = SIZE_MAX;
              for (int round = 0; round < kRounds; ++round) {
                const size_t before = allocations;
                if (std::string why = everything(); !why.empty()) return why;
                made = std::min(made, allocations - before);
              }
              return made == 0 ? std::string() : std::to_string(made) + " allocations";
            },
            &config) == "");
}

TEST_CASE("where there is no memory to read a folder, that is an error, and not the end of the process") {
  using tutti::hasOneProgramThread, tutti::namesIn;
  const std::function<bool()> reads[] = {[] { return namesIn("/proc/self").has_value(); }, hasOneProgramThread};
  for (const auto& read : reads) {
    size_t refused = 0;
    for (bool reached = true; reached;) {
      failing = allocations + refused + 1;
      try {
        (void)read();
        reached = allocations >= failing;  // what a stream allocates in vain is a file that cannot be read
      } catch (const std::bad_alloc&) {
      }
      refused += reached ? 1 : 0;
      failing = 0;
    }
    CHECK(refused > 0);
    CHECK(read());
  }
}

#if TUTTI_HAVE_PUGIXML
TEST_CASE("the copy of an input in place is in memory that was taken with the plan") {
  const Variable wait("TUTTI_WAIT", "yield");  // as above
  const TempFolder folder;
  folder.write("shout.xml", shoutXml(3));
  const Variable plans("TUTTI_PLAN_DIR", folder.path()), algorithm("TUTTI_ALGO", "allreduce:shout");
  const Variable strict("TUTTI_ALGO_STRICT", "1"), transports("TUTTI_TRANSPORTS", GENERATE("shm,self", "tcp,self"));
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          std::vector<float> x(100000);
          size_t made = SIZE_MAX;
          for (int round = 0; round < kRounds; ++round) {
            const size_t before = allocations;
            for (const size_t count : {1, 1000, 100000}) {
              for (float& value : x) value = 1;
              RANK_TRY(tuttiAllReduce(x.data(), x.data(), count, tuttiFloat32, tuttiSum, r.comm, nullptr));
              RANK_CHECK(x[0] == 3 && x[count - 1] == 3);
            }
            made = std::min(made, allocations - before);
          }
          return made == 0 ? "" : std::to_string(made) + " allocations";
        }) == "");
}
#endif
