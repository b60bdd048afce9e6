#include "tests/chaos/deaths/round.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::test {
namespace {

template <size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  std::strncpy(to.data(), text.c_str(), N - 1);
}

bool names(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if (at + name.size() == text.size() || std::isdigit(text[at + name.size()]) == 0) return true;
  return false;
}

void die(const Plan& plan, Scene& scene) { arm(plan.fate, scene.diedUs, scene.sent); }

tuttiConfig_t config(const Plan& plan) {
  tuttiConfig_t made = TUTTI_CONFIG_INITIALIZER;
  made.timeoutMs = deadlineMs(plan);
  return made;
}

struct Rank {
  const Plan& plan;
  const int rank;
  Scene& scene;
  Account& account;
  tuttiComm_t comm = nullptr;
  bool shrunk = false;  // comm is one without the dead, as far as is known
  bool mortal() const { return rank == plan.victim; }

  bool complain(const std::string& what) {
    if (account.complaint[0] == 0) put(account.complaint, what);
    return false;
  }
  /// A call has failed: is that because of the victim, and does it say so?
  bool blame(tuttiResult_t result, tuttiComm_t of) {
    account.returnedUs.store(nowUs());
    const std::string text = tuttiGetLastError(of);
    put(account.error, text);
    if (mortal()) return true;
    // Another rank may have heard of the death before, and begun to shrink.
    const bool goesOn = text.find("has revoked the communicator") != std::string::npos;
    const bool named =
        goesOn || names(text, plan.victim) || (plan.hosts && text.find("rendezvous") != std::string::npos);
    if (named && (result == tuttiRemoteError || result == tuttiTimeout)) return true;
    return complain("gave " + std::to_string(result) + ": " + text);
  }

  bool init(bool dies) {
    tuttiConfig_t c = config(plan);
    if (dies && mortal()) die(plan, scene);
    const tuttiResult_t result = tuttiCommInitRankConfig(&comm, plan.nRanks, scene.first, rank, &c);
    if (result == tuttiSuccess) return true;
    if (dies)
      (void)blame(result, nullptr);
    else
      complain(std::string("init: ") + tuttiGetLastError(nullptr));
    return false;
  }

  /// Calls in an order that all ranks know, until one fails.
  tuttiResult_t call(std::mt19937_64& dice, std::vector<float>& data) {
    const size_t count = size_t{1} << (dice() % 15);
    const int n = plan.nRanks, root = static_cast<int>(dice() % static_cast<uint64_t>(n));
    float* const in = data.data();
    float* const out = in + count * static_cast<size_t>(n);
    switch (dice() % 9) {
      case 0: return tuttiBroadcast(in, in, count, tuttiFloat32, root, comm, nullptr);
      case 1: return tuttiReduce(in, out, count, tuttiFloat32, tuttiMax, root, comm, nullptr);
      case 2: return tuttiAllGather(in, out, count, tuttiFloat32, comm, nullptr);
      case 3: return tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiMax, comm, nullptr);
      case 4: return tuttiAllToAll(in, out, count, tuttiFloat32, comm, nullptr);
      case 5: return tuttiGather(in, out, count, tuttiFloat32, root, comm, nullptr);
      case 6: return tuttiScatter(in, out, count, tuttiFloat32, root, comm, nullptr);
      case 7: {
        (void)tuttiGroupStart();
        (void)tuttiSend(in, count, tuttiFloat32, (rank + 1) % n, comm, nullptr);
        (void)tuttiRecv(out, count, tuttiFloat32, (rank + n - 1) % n, comm, nullptr);
        return tuttiGroupEnd();
      }
      default: return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiMax, comm, nullptr);
    }
  }
  bool callUntilDeath() {
    std::mt19937_64 dice(plan.seed + 1);
    std::vector<float> data((size_t{1} << 15) * static_cast<size_t>(plan.nRanks), 1.0f);
    for (int i = 0;; ++i) {
      if (mortal() && i == plan.round) die(plan, scene);
      if (const tuttiResult_t result = call(dice, data); result != tuttiSuccess) return blame(result, comm);
    }
  }
  bool splitUntilDeath() {
    for (int i = 0;; ++i) {
      if (mortal() && i == plan.round) die(plan, scene);
      tuttiComm_t child = nullptr;
      const int color = static_cast<int>(plan.seed % 2) * (rank % 2);
      const tuttiResult_t result = tuttiCommSplit(comm, color, -rank, &child, nullptr);
      if (result != tuttiSuccess) return blame(result, comm);
      (void)tuttiCommDestroy(child);
    }
  }
  bool shrinkUntilDeath() {
    for (int i = 0;; ++i) {
      if (mortal() && i == plan.round) die(plan, scene);
      tuttiComm_t child = nullptr;
      const tuttiResult_t result = tuttiCommShrink(comm, nullptr, 0, &child, nullptr, TUTTI_SHRINK_DEFAULT);
      if (result != tuttiSuccess) return blame(result, comm);
      int n = 0;
      (void)tuttiCommCount(child, &n);
      if (n <
          plan.nRanks) {  // that one is without the dead, on all ranks: another shrink of the parent is another call
        account.returnedUs.store(nowUs());
        (void)tuttiCommAbort(std::exchange(comm, child));
        shrunk = true;
        return true;
      }
      (void)tuttiCommAbort(child);
    }
  }
  bool growOnce() {
    if (mortal()) die(plan, scene);
    tuttiComm_t child = nullptr;
    const int root = plan.victim == 0 ? 1 : 0;
    const tuttiResult_t result =
        tuttiCommGrow(comm, plan.nRanks + plan.nNew, rank == root ? &scene.second : nullptr, -1, &child, nullptr);
    if (result != tuttiSuccess) return blame(result, comm);
    const bool ok = barriers(child);
    (void)tuttiCommAbort(child);
    return ok;
  }
  bool barriers(tuttiComm_t of) {
    for (;;)
      if (const tuttiResult_t result = tuttiBarrier(of, nullptr); result != tuttiSuccess) return blame(result, of);
  }
  bool destroy() {
    for (int i = 0; i <= plan.round; ++i)
      if (const tuttiResult_t result = tuttiBarrier(comm, nullptr); result != tuttiSuccess) return blame(result, comm);
    if (mortal()) die(plan, scene);
    const tuttiResult_t result = tuttiCommDestroy(comm);
    comm = nullptr;
    if (result != tuttiSuccess) return blame(result, nullptr);
    account.returnedUs.store(nowUs());  // whoever has the farewells of all may go
    return true;
  }

  /// The others make a sum without the dead.
  void goOn() {
    std::string last;
    for (const int64_t began = nowUs(); nowUs() - began < int64_t{kDeadlineMs} / 4 * 1000;) {
      tuttiComm_t rest = nullptr;
      if (!std::exchange(shrunk, false)) {
        if (tuttiCommShrink(comm, nullptr, 0, &rest, nullptr, TUTTI_SHRINK_ABORT) != tuttiSuccess)
          return (void)complain(std::string("shrink: ") + tuttiGetLastError(comm));
        (void)tuttiCommAbort(std::exchange(comm, rest));
      }
      int sum = 1;
      if (tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr) != tuttiSuccess) {
        last = tuttiGetLastError(comm);
        continue;
      }
      if (sum != plan.nRanks - 1) {  // the death was not known to all yet
        last = "a sum of " + std::to_string(sum);
        continue;
      }
      account.wentOnUs.store(nowUs());
      (void)tuttiCommDestroy(comm);
      return;
    }
    complain("the others do not go on: " + last);
  }
};

void liveAsNew(Rank& r) {
  tuttiConfig_t c = config(r.plan);
  const tuttiResult_t result =
      tuttiCommGrow(nullptr, r.plan.nRanks + r.plan.nNew, &r.scene.second, r.rank, &r.comm, &c);
  (void)(result == tuttiSuccess ? r.barriers(r.comm) : r.blame(result, nullptr));
}

}  // namespace

const char* nameOf(During during) {
  switch (during) {
    case During::Init: return "init";
    case During::Calls: return "calls";
    case During::Split: return "Split";
    case During::Shrink: return "Shrink";
    case During::Grow: return "Grow";
    case During::Destroy: return "Destroy";
  }
  return "?";
}

Plan planOf(uint64_t seed, int mostRanks, std::optional<During> during) {
  std::mt19937_64 dice(seed * 0x9e3779b97f4a7c15);
  const auto below = [&](int n) { return static_cast<int>(dice() % static_cast<uint64_t>(n)); };
  Plan plan;
  plan.seed = seed;
  plan.during = kAllDuring[static_cast<size_t>(below(kAllDuring.size()))];
  if (during) plan.during = *during;
  plan.tcp = below(2) == 0;
  plan.nRanks = 2 + below(mostRanks - 1);
  plan.nNew = plan.during == During::Grow ? 1 + below(kMostNew) : 0;
  plan.victim = below(plan.nRanks);
  plan.hosts = plan.during == During::Init && plan.victim == 0 && below(2) == 0;
  plan.fate.death = static_cast<Death>(below(3));
  plan.round = plan.during == During::Grow || plan.during == During::Init ? 0 : below(4);
  const bool byTime = plan.during == During::Calls ? below(2) == 0 : below(4) == 0;
  if (byTime)
    plan.fate.afterUs = below(below(2) == 0 ? 2'000 : 30'000);
  else
    plan.fate.calls = 1 + below(plan.during == During::Destroy ? 40 : 250);
  return plan;
}

std::string describe(const Plan& p) {
  std::ostringstream out;
  out << "seed " << p.seed << ": " << p.nRanks << " ranks" << (p.nNew > 0 ? " and " + std::to_string(p.nNew) : "")
      << " over " << (p.tcp ? "tcp" : "shm") << ", " << nameOf(p.fate.death) << " of rank " << p.victim
      << (p.hosts ? ", where they meet," : "") << " in " << nameOf(p.during);
  if (p.fate.calls > 0)
    out << " with system call " << p.fate.calls;
  else
    out << " after " << p.fate.afterUs << " us";
  out << " from round " << p.round;
  return out.str();
}

void serveIds(Scene& scene) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool ok = tuttiGetUniqueId(&scene.first) == tuttiSuccess && tuttiGetUniqueId(&scene.second) == tuttiSuccess;
  scene.ready.store(ok ? 1 : -1);
  for (;;) ::pause();
}

void live(const Plan& plan, int rank, Scene& scene) {
  ::setenv("TUTTI_TRANSPORTS", plan.tcp ? "tcp,self" : "shm,self", 1);
  ::setenv("TUTTI_CALIBRATION", "off", 1);
  Rank r{plan, rank, scene, scene.accounts[static_cast<size_t>(rank)]};
  if (plan.hosts && r.mortal()) scene.ready.store(tuttiGetUniqueId(&scene.first) == tuttiSuccess ? 1 : -1);
  while (scene.ready.load() == 0) ::usleep(200);
  if (scene.ready.load() < 0) return (void)r.complain("there is no unique id");
  if (rank >= plan.nRanks) return liveAsNew(r);
  if (r.init(plan.during == During::Init)) {
    bool ok = false;
    if (plan.during != During::Init) (void)tuttiBarrier(r.comm, nullptr);
    switch (plan.during) {
      case During::Init: ok = r.barriers(r.comm); break;
      case During::Calls: ok = r.callUntilDeath(); break;
      case During::Split: ok = r.splitUntilDeath(); break;
      case During::Shrink: ok = r.shrinkUntilDeath(); break;
      case During::Grow: ok = r.growOnce(); break;
      case During::Destroy: ok = r.destroy(); break;
    }
    // Of an init that fails on some, nobody has a communicator to shrink; one that is destroyed is gone.
    const bool stays = plan.during != During::Init && plan.during != During::Destroy;
    if (ok && stays && !r.mortal()) r.goOn();
  }
  if (r.mortal()) std::this_thread::sleep_for(std::chrono::milliseconds(kDeadlineMs));  // it dies, whatever it saw
}

}  // namespace tutti::test
