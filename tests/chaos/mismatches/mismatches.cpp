// Programs whose ranks make calls that do not match: how many ranks are told, how soon after the last of them entered
// its call, and whether the culprit is named.  The seed chooses ranks, transport, size, and what all do afterwards.
//
//   mismatches [--rounds 40] [--first 1] [--verbose] [--only CASE] [--cuda]
//
// --cuda: ranks on CUDA devices, or on those of tests/fake_cuda where LD_LIBRARY_PATH has that driver.
// Exit status: 0 if every rank of every program got an error, none of them at its deadline.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/chaos/mismatches/cases.hpp"
#include "tests/support/processes.hpp"

using namespace tutti::test;

namespace {

constexpr int kMostRanks = 8;
constexpr int kDeadlineMs = 8'000;
constexpr double kSoonMs = 50;

struct Round {
  uint64_t seed = 0;
  const Case* what = nullptr;
  int nRanks = 2, odd = 0, variant = 0;
  bool tcp = false, cuda = false;
  size_t count = 16;
  int then = 0;  // 0: Destroy; 1: Barrier, Destroy; 2: AllReduce, Destroy
};

struct Account {
  std::atomic<int64_t> enteredUs{0}, erredUs{0};
  std::atomic<bool> passed{false};  // it has destroyed its communicator with success
  std::array<char, 512> error{};
};
using Accounts = std::array<Account, kMostRanks>;

Round roundOf(uint64_t seed, const Case* only, bool cuda) {
  std::mt19937_64 dice(seed * 0x9e3779b97f4a7c15);
  const auto below = [&](size_t n) { return static_cast<int>(dice() % n); };
  Round r;
  r.seed = seed;
  r.what = only != nullptr ? only : &allCases()[seed % allCases().size()];
  r.nRanks = 2 + below(kMostRanks - 1);
  r.odd = below(static_cast<size_t>(r.nRanks));
  r.variant = below(static_cast<size_t>(r.what->nVariants));
  r.tcp = below(2) == 0;
  r.count = below(3) == 0 ? 40'000 : 16;
  r.then = below(3);
  r.cuda = cuda;
  return r;
}

std::string describe(const Round& r) {
  static constexpr std::array kThen = {"Destroy", "Barrier", "AllReduce"};
  return "seed " + std::to_string(r.seed) + ": " + r.what->name + " (variant " + std::to_string(r.variant) +
         "), rank " + std::to_string(r.odd) + " of " + std::to_string(r.nRanks) + " over " + (r.tcp ? "tcp" : "shm") +
         ", count " + std::to_string(r.count) + ", then " + kThen[static_cast<size_t>(r.then)];
}

/// Whether the text has this number among the ranks that it names.
bool names(const std::string& text, int rank) {
  bool ranks = false;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && std::isalnum(text[end]) != 0) ++end;
    const std::string word = text.substr(at, std::max<size_t>(end - at, 1));
    const bool number = std::isdigit(word[0]) != 0;
    if (ranks && number && word == std::to_string(rank)) return true;
    if (end > at)
      ranks = word == "rank" || word == "ranks" || (ranks && (number || word == "and"));
    else if (word != " " && word != ",")
      ranks = false;
    at = std::max(end, at + 1);
  }
  return false;
}

/// Whether a number has more digits than any count has.  Communicators without a name go by such a one.
bool hasHash(const std::string& text) {
  static constexpr std::string_view kBefore = "communicator ";
  size_t digits = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    digits = std::isdigit(text[at]) != 0 ? digits + 1 : 0;
    if (digits > 15 && !std::string_view(text).substr(0, at + 1 - digits).ends_with(kBefore)) return true;
  }
  return false;
}

bool misleads(const Round& r, const std::string& text) {
  if (hasHash(text)) return true;
  const bool odd = names(text, r.odd) || r.what->culprit == Culprit::Nobody || r.nRanks == 2 ||
                   (r.what->culprit == Culprit::OneOfTwo && names(text, (r.odd + 1) % r.nRanks));
  return !odd || text.find("raise the timeout") != std::string::npos || text.find("rank -1") != std::string::npos;
}

/// What a call comes to that a stream of a device carries out; ok, too, where nothing is wrong with it for a while.
tuttiResult_t outcome(const Round& r, tuttiResult_t result, tuttiComm_t comm) {
  constexpr int kMostWaitMs = 150;
  tuttiResult_t state = result;
  for (const int64_t began = nowUs(); r.cuda && state == tuttiSuccess && nowUs() - began < 1000 * kMostWaitMs;) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (tuttiCommGetAsyncError(comm, &state) != tuttiSuccess) return tuttiInternalError;
    if (state == tuttiInProgress) state = tuttiSuccess;
  }
  return state;
}

/// Both buffers, and as much room in each; of a device, where ranks compute there.
float* memoryOf(const Round& r, size_t floats) {
  static std::vector<float> host;
  void* memory = nullptr;
  if (r.cuda)
    return tuttiMemAlloc(&memory, floats * sizeof(float)) == tuttiSuccess ? static_cast<float*>(memory) : nullptr;
  host.assign(floats, 1.0f);
  return host.data();
}

/// Communicators of any two neighbours: number i has ranks i and i + 1.
tuttiResult_t splitRing(Player& p) {
  for (int i = 0; i < p.nRanks; ++i) {
    const bool isLeft = p.rank == i, isRight = p.rank == (i + 1) % p.nRanks;
    tuttiComm_t pair = nullptr;
    const int color = isLeft || isRight ? 0 : TUTTI_SPLIT_NOCOLOR;
    const tuttiResult_t made = tuttiCommSplit(p.comm, color, isRight ? 1 : 0, &pair, nullptr);
    if (made != tuttiSuccess) return made;
    if (isLeft) p.right = pair;
    if (isRight) p.left = pair;
  }
  return tuttiSuccess;
}

std::string play(const Round& r, int rank, const UniqueIds& ids, Accounts& accounts) {
  ::setenv("TUTTI_TRANSPORTS", r.tcp ? "tcp,self" : "shm,self", 1);
  ::setenv("TUTTI_CALIBRATION", "off", 1);
  if (r.cuda) ::setenv("TUTTI_DEVICE", "cuda", 1);
  Account& account = accounts[static_cast<size_t>(rank)];
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kDeadlineMs;
  Player p{.rank = rank, .nRanks = r.nRanks, .odd = r.odd, .count = r.count, .variant = r.variant};
  RANK_TRY(tuttiCommInitRankConfig(&p.comm, r.nRanks, ids[0], rank, &config));
  if (std::strcmp(r.what->name, "two in turn") == 0)
    RANK_TRY(tuttiCommInitRankConfig(&p.other, r.nRanks, ids[1], rank, &config));
  if (std::strcmp(r.what->name, "around a ring") == 0) RANK_TRY(splitRing(p));
  const size_t floats = (r.count + 1) * static_cast<size_t>(r.nRanks + 1);
  p.in = memoryOf(r, 2 * floats);
  if (p.in == nullptr) return "has no memory";
  p.out = p.in + floats;
  p.enteredUs = &account.enteredUs;
  const auto note = [&](tuttiResult_t result, tuttiComm_t of) {
    if (result == tuttiSuccess) return false;
    account.erredUs.store(nowUs());
    std::strncpy(account.error.data(), tuttiGetLastError(of), account.error.size() - 1);
    return true;
  };
  bool failed = note(p.allReduce(16), nullptr);  // others may be ahead already
  if (!failed) {
    const tuttiResult_t called = r.what->play(p);
    failed = note(outcome(r, called, p.comm), called == tuttiSuccess ? p.comm : nullptr);
  }
  if (!failed && r.then == 1) p.enter(), failed = note(outcome(r, tuttiBarrier(p.comm, nullptr), p.comm), p.comm);
  if (!failed && r.then == 2) failed = note(outcome(r, p.allReduce(16), p.comm), p.comm);
  if (!failed) {
    p.enter();
    const tuttiResult_t result = tuttiCommDestroy(p.comm);
    p.comm = nullptr;
    account.passed.store(!note(result, nullptr));
  }
  // Others may need a rank that knows for some time yet.
  if (p.comm != nullptr) (void)tuttiCommDestroy(p.comm);
  // Who waits in another one learns why by itself.
  if (p.other != nullptr || p.left != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (tuttiComm_t comm : {p.other, p.left, p.right})
    if (comm != nullptr) (void)tuttiCommAbort(comm);
  return "";
}

struct Tally {
  int rounds = 0, ranks = 0, told = 0, soon = 0, misled = 0, late = 0;
  double mostMs = 0;
  std::vector<double> ms;

  void add(const Tally& t) {
    rounds += t.rounds, ranks += t.ranks, told += t.told, soon += t.soon, misled += t.misled, late += t.late;
    mostMs = std::max(mostMs, t.mostMs);
    ms.insert(ms.end(), t.ms.begin(), t.ms.end());
  }
};

void judge(const Round& r, const Accounts& accounts, bool verbose, Tally* t) {
  int64_t lastUs = 0;
  for (int rank = 0; rank < r.nRanks; ++rank)
    lastUs = std::max(lastUs, accounts[static_cast<size_t>(rank)].enteredUs.load());
  ++t->rounds;
  for (int rank = 0; rank < r.nRanks; ++rank) {
    const Account& account = accounts[static_cast<size_t>(rank)];
    const std::string text = account.error.data();
    ++t->ranks;
    if (account.erredUs.load() == 0) {
      std::printf("%s: rank %d: NOT TOLD%s\n", describe(r).c_str(), rank, account.passed ? ", success" : "");
      continue;
    }
    const double ms = std::max(0.0, static_cast<double>(account.erredUs.load() - lastUs) / 1000);
    ++t->told;
    t->ms.push_back(ms);
    t->soon += ms <= kSoonMs ? 1 : 0;
    t->late += ms > kDeadlineMs / 2.0 ? 1 : 0;
    t->mostMs = std::max(t->mostMs, ms);
    const bool misled = misleads(r, text);
    t->misled += misled ? 1 : 0;
    if (misled || ms > kSoonMs || verbose)
      std::printf("%s: rank %d%s after %.1f ms: %s\n", describe(r).c_str(), rank, misled ? ": MISLED" : "", ms,
                  text.c_str());
  }
}

void print(const std::string& name, Tally t) {
  std::sort(t.ms.begin(), t.ms.end());
  const double p50 = t.ms.empty() ? 0 : t.ms[t.ms.size() / 2];
  const double p95 = t.ms.empty() ? 0 : t.ms[std::min(t.ms.size() - 1, t.ms.size() * 95 / 100)];
  std::printf("%-16s %6d %6d %6d %8d %6d %6d %8.1f %8.1f %8.1f\n", name.c_str(), t.rounds, t.ranks, t.told, t.soon,
              t.misled, t.late, p50, p95, t.mostMs);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 40;
  uint64_t first = 1;
  bool verbose = false, cuda = false;
  const Case* only = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--verbose")
      verbose = true;
    else if (name == "--cuda")
      cuda = true;
    else if (name == "--rounds" && std::atoi(value.c_str()) > 0)
      rounds = std::atoi(argv[++i]);
    else if (name == "--first" && std::atoi(value.c_str()) > 0)
      first = std::strtoull(argv[++i], nullptr, 10);
    else if (name == "--only") {
      for (const Case& c : allCases())
        if (value == c.name) only = &c;
      ++i;
    }
    if ((name == "--only" && only == nullptr) ||
        (name != "--only" && name != "--verbose" && name != "--cuda" && value.empty())) {
      std::fprintf(stderr,
                   "usage: mismatches [--rounds N] [--first SEED] [--verbose] [--only CASE] [--cuda]; cases:\n");
      for (const Case& c : allCases()) std::fprintf(stderr, "  %s\n", c.name);
      return 2;
    }
  }
  void* const page = ::mmap(nullptr, sizeof(Accounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 2;
  std::map<std::string, Tally> tallies;
  Tally all;
  for (int i = 0; i < rounds; ++i) {
    const Round r = roundOf(first + static_cast<uint64_t>(i), only, cuda);
    Accounts& accounts = *new (page) Accounts;
    std::fflush(stdout);
    const std::vector<int> ends =
        onProcesses(r.nRanks, [&](int rank, const UniqueIds& ids) { return play(r, rank, ids, accounts); });
    if (std::any_of(ends.begin(), ends.end(), [](int status) { return status != 0; }))
      std::printf("%s: a process has ended badly\n", describe(r).c_str());
    judge(r, accounts, verbose, &tallies[r.what->name]);
  }
  std::printf("%-16s %6s %6s %6s %8s %6s %6s %8s %8s %8s\n", "case", "rounds", "ranks", "told", "in 50 ms", "misled",
              "late", "p50 ms", "p95 ms", "most ms");
  for (const auto& [name, tally] : tallies) {
    print(name, tally);
    all.add(tally);
  }
  print("all", all);
  return all.told == all.ranks && all.late == 0 ? 0 : 1;
}
