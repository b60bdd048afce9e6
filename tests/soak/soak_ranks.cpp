// One rank of a job that goes on for long: soak_ranks SECONDS
//
// Over and over: a communicator without the last rank, that one grown again, halves of it, all collectives on each, and
// all of them destroyed.  Prints what this process has of memory, descriptors and threads, and compares the end with
// what it had when everything had been made some times.  Exit status 0 if results were right and nothing had grown.
#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRoundsBefore = 20;     // until all has been made that a process makes once
constexpr long kMostGrownKiB = 4096;  // however many rounds; what the allocator keeps in pieces is most of it

struct Held {
  long memoryKiB = 0;
  int descriptors = 0;
  int threads = 0;
};

int entriesIn(const char* folder) {
  int n = 0;
  DIR* dir = ::opendir(folder);
  if (dir == nullptr) return 0;
  while (::readdir(dir) != nullptr) ++n;
  ::closedir(dir);
  return n;
}

/// Of this process alone: without what it shares with others.
Held held() {
  long pages = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident >> shared;
  return {(resident - shared) * ::sysconf(_SC_PAGESIZE) / 1024, entriesIn("/proc/self/fd"),
          entriesIn("/proc/self/task")};
}

/// Threads say their last word, and connections close, behind the calls that end them; where cores lack long behind.
Held heldAtRest(const Held& before) {
  Held now = held();
  for (int looks = 0; looks < 100; ++looks) {
    ::usleep(100'000);
    now = held();
    if (now.descriptors <= before.descriptors && now.threads <= before.threads) break;
  }
  return now;
}

/// A communicator that is destroyed, or aborted if it goes on its way by an error.
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (comm != nullptr) tuttiCommAbort(comm);
  }
  std::string destroy() { return failed(tuttiCommDestroy(std::exchange(comm, nullptr)), "destroy"); }
  tuttiComm_t comm = nullptr;
};

std::string check(tuttiComm_t comm, size_t count) {
  Rank r{0, 0, comm};
  RANK_TRY(tuttiCommUserRank(comm, &r.rank));
  RANK_TRY(tuttiCommCount(comm, &r.nRanks));
  CheckOptions o;
  o.count = count;
  o.root = r.nRanks - 1;
  return checkEverything(r, o);
}

/// By the id that rank 0 makes and all hear of: those in `fewer` grow it by the last rank.
std::string grow(const Rank& world, tuttiComm_t fewer, Owned* grown) {
  tuttiUniqueId id{};
  if (world.rank == 0) RANK_TRY(tuttiGetUniqueId(&id));
  RANK_TRY(tuttiBroadcast(id.internal, id.internal, sizeof id.internal, tuttiUint8, 0, world.comm, nullptr));
  if (fewer == nullptr) {
    RANK_TRY(tuttiCommGrow(nullptr, world.nRanks, &id, world.nRanks - 1, &grown->comm, nullptr));
  } else {
    RANK_TRY(tuttiCommGrow(fewer, world.nRanks, world.rank == 0 ? &id : nullptr, -1, &grown->comm, nullptr));
  }
  return "";
}

std::string round(const Rank& world, int number) {
  const size_t count = size_t{1} << (number % 15);
  if (std::string why = check(world.comm, count); !why.empty()) return why;
  const int last = world.nRanks - 1;
  Owned fewer, grown, half;
  if (world.rank != last) {
    RANK_TRY(tuttiCommShrink(world.comm, &last, 1, &fewer.comm, nullptr, TUTTI_SHRINK_DEFAULT));
    if (std::string why = check(fewer.comm, count); !why.empty()) return "shrunken: " + why;
  }
  if (std::string why = grow(world, fewer.comm, &grown); !why.empty()) return why;
  if (std::string why = check(grown.comm, count); !why.empty()) return "grown: " + why;
  RANK_TRY(tuttiCommSplit(grown.comm, world.rank % 2, world.rank, &half.comm, nullptr));
  if (std::string why = check(half.comm, count); !why.empty()) return "half: " + why;
  for (Owned* one : {&half, &grown, &fewer}) {
    if (one->comm == nullptr) continue;
    if (std::string why = one->destroy(); !why.empty()) return why;
  }
  return "";
}

/// All ranks go on, or none.
std::string goesOn(const Rank& world, bool more, bool* all) {
  int32_t word = more ? 1 : 0;
  RANK_TRY(tuttiAllReduce(&word, &word, 1, tuttiInt32, tuttiMin, world.comm, nullptr));
  *all = word == 1;
  return "";
}

void print(int rank, int rounds, const Held& now) {
  std::printf("rank %d: %6d rounds, %7ld KiB, %3d descriptors, %2d threads\n", rank, rounds, now.memoryKiB,
              now.descriptors, now.threads);
  std::fflush(stdout);
}

std::string unlessFlat(const Held& first, const Held& last, int rounds) {
  const long grownKiB = last.memoryKiB - first.memoryKiB;
  if (grownKiB > kMostGrownKiB)
    return "memory grew by " + std::to_string(grownKiB) + " KiB in " + std::to_string(rounds) + " rounds";
  if (last.descriptors > first.descriptors)
    return "descriptors grew from " + std::to_string(first.descriptors) + " to " + std::to_string(last.descriptors);
  if (last.threads > first.threads)
    return "threads grew from " + std::to_string(first.threads) + " to " + std::to_string(last.threads);
  return "";
}

std::string soak(double seconds) {
  Owned job;
  RANK_TRY(tuttiCommInitEnv(&job.comm, nullptr));
  Rank world{0, 0, job.comm};
  RANK_TRY(tuttiCommUserRank(job.comm, &world.rank));
  RANK_TRY(tuttiCommCount(job.comm, &world.nRanks));
  if (world.nRanks < 2) return "a job of one rank has nobody to shrink by";
  const auto start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Held first;
  double saidAt = 0;
  int rounds = 0;
  for (bool more = true; more; ++rounds) {
    if (std::string why = round(world, rounds); !why.empty()) return "round " + std::to_string(rounds) + ": " + why;
    if (rounds == kRoundsBefore) print(world.rank, rounds, first = held());
    if (passed() - saidAt >= 30) {
      saidAt = passed();
      print(world.rank, rounds, held());
    }
    if (std::string why = goesOn(world, rounds < 2 * kRoundsBefore || passed() < seconds, &more); !why.empty())
      return why;
  }
  const Held last = heldAtRest(first);
  print(world.rank, rounds, last);
  if (std::string why = job.destroy(); !why.empty()) return why;
  return unlessFlat(first, last, rounds - kRoundsBefore);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string why = soak(argc > 1 ? std::atof(argv[1]) : 10);
  if (!why.empty()) std::fprintf(stderr, "soak: %s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
