#include "src/nccl/cliques.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/threads.hpp"
#include "src/nccl/calls.hpp"
#include "src/nccl/current_device.hpp"
#include "src/nccl/errors.hpp"
#include "src/nccl/log.hpp"

namespace tutti::nccl {
namespace {

/// One rank of this process.
struct Member {
  std::string key;
  const char* function;  // that made it
  bool announced = false;
  bool ended = false;  // destroyed as far as the program knows
  bool finalized = false, revoked = false;
  Shares shares;
  uint64_t children = 0;
  unsigned long calls = 0;
};

/// The ranks of one communicator that this process has.
struct Clique {
  int live = 0;                        // not destroyed or aborted
  int open = 0;                        // nor finalized
  std::vector<ncclComm_t> finalizing;  // put aside until no rank is open
  std::vector<ncclComm_t> parked;      // destroyed, and put aside until no rank is live
};

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, Member> members;
  std::map<std::string, Clique> cliques;
  std::atomic<int> unannounced{0};
  std::atomic<bool> anyRevoked{false};
};

Registry& registry() {
  static auto* const all = new Registry;  // threads may outlive static destructors
  return *all;
}

thread_local int groupDepth = 0;
thread_local ncclResult_t groupError = ncclSuccess;
thread_local std::vector<std::pair<ncclComm_t*, ncclComm_t>> madeInGroup;

// With the registry's lock.
void leave(Registry& all, const std::string& key) {
  const auto found = all.cliques.find(key);
  if (found == all.cliques.end()) return;
  --found->second.open;
  if (--found->second.live <= 0 && found->second.parked.empty()) all.cliques.erase(found);
}

void forget(ncclComm_t comm) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  if (found == all.members.end()) return;
  if (!found->second.announced) --all.unannounced;
  leave(all, found->second.key);
  all.members.erase(found);
}

ncclResult_t finalizeOne(ncclComm_t comm) { return finish("CommFinalize", tuttiCommFinalize(handle(comm))); }

// NCCL's destroy does not care whether other processes are still there, and programs end without caring either.
ncclResult_t destroyOne(ncclComm_t comm) {
  const tuttiResult_t result = tuttiCommDestroy(handle(comm));
  if (result != tuttiRemoteError && result != tuttiTimeout) return finish("CommDestroy", result);
  logInfo(subject::kDestroy, format("comm %p freed; %s", static_cast<void*>(comm), tuttiGetLastError(handle(comm))));
  return ncclSuccess;
}

struct End {
  const char* function;
  ncclResult_t (*one)(ncclComm_t);
  bool frees;
};
constexpr End kFinalize = {"CommFinalize", finalizeOne, false};
constexpr End kDestroy = {"CommDestroy", destroyOne, true};

/// Those that cannot end at once are freed one by one all the same, if they were to be.
ncclResult_t endNone(const std::vector<ncclComm_t>& comms, const End& end, const Status& why) {
  for (const ncclComm_t comm : comms) {
    if (end.frees) (void)tuttiCommAbort(handle(comm));
  }
  return fail(ncclSystemError, end.function, why.text());
}

/// The end of all of them at once, as each waits for the others; the first error.
ncclResult_t endAll(const std::vector<ncclComm_t>& comms, const End& end) {
  std::vector<ncclResult_t> results(comms.size(), ncclSuccess);
  std::vector<std::function<Status()>> tasks;
  for (size_t i = 0; i < comms.size(); ++i) {
    tasks.emplace_back([&, i] {
      results[i] = end.one(comms[i]);
      return Status();
    });
  }
  const auto ended = runTogether("each rank of this process that ends", tasks);
  if (!ended.ok()) return endNone(comms, end, ended.status());
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t gone(const char* function) {
  return fail(ncclInvalidArgument, function, "comm has been destroyed already");
}

/// Whether a communicator can be finalized or revoked, each of which NCCL does once and not after the other.
ncclResult_t mayEnd(const char* function, const Member& member) {
  if (member.ended) return gone(function);
  if (!member.finalized && !member.revoked) return ncclSuccess;
  return fail(ncclInvalidArgument, function,
              member.revoked ? "comm has been revoked: destroy or abort it" : "comm has been finalized already");
}

/// comm has ended; those that are to be destroyed now, which are none while a rank of this process is left.
/// False if it had ended before.
bool endMember(ncclComm_t comm, bool parks, std::vector<ncclComm_t>* due) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  if (found == all.members.end()) {  // tutti knows what to say
    if (parks) due->push_back(comm);
    return true;
  }
  if (found->second.ended) return false;
  found->second.ended = true;
  Clique& clique = all.cliques[found->second.key];
  if (!found->second.finalized) --clique.open;
  if (parks) clique.parked.push_back(comm);
  if (parks && !found->second.finalized) clique.finalizing.push_back(comm);  // with the others, if they finalize
  if (!parks) std::erase(clique.finalizing, comm);
  if (!found->second.announced) --all.unannounced;
  found->second.announced = true;
  if (--clique.live > 0) return true;
  *due = std::move(clique.parked);
  all.cliques.erase(found->second.key);
  for (const ncclComm_t each : *due) all.members.erase(each);
  all.members.erase(comm);
  return true;
}

}  // namespace

// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
unsigned long long hashOf(const std::string& key) {
  unsigned long long hash = 0xcbf29ce484222325ull;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

void joining(const std::string& key) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Clique& clique = all.cliques[key];
  ++clique.live;
  ++clique.open;
}

void joined(const std::string& key, ncclComm_t comm, const char* function, Shares shares) {
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    Member member;
    member.key = key;
    member.function = function;
    member.shares = shares;
    member.announced = !infoEnabled(subject::kInit);
    if (!member.announced) ++all.unannounced;
    all.members[comm] = member;
  }
  if (groupDepth == 0) announce(comm);
}

void notJoined(const std::string& key) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  leave(all, key);
}

std::string childKey(ncclComm_t parent, const std::string& what) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(parent);
  if (found == all.members.end()) return what;
  Member& member = found->second;
  return format("%016llx/%llu/", hashOf(member.key), static_cast<unsigned long long>(++member.children)) + what;
}

Shares sharesOf(ncclComm_t comm) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  return found == all.members.end() ? Shares{} : found->second.shares;
}

bool isRevoked(ncclComm_t comm) {
  Registry& all = registry();
  if (!all.anyRevoked.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  return found != all.members.end() && found->second.revoked && !found->second.ended;
}

unsigned long long communicatorHash(ncclComm_t comm) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  return found == all.members.end() ? 0 : hashOf(found->second.key);
}

void announce(ncclComm_t comm) {
  Registry& all = registry();
  if (all.unannounced.load(std::memory_order_relaxed) == 0) return;
  tuttiResult_t state = tuttiInProgress;
  if (tuttiCommGetAsyncError(handle(comm), &state) != tuttiSuccess || state != tuttiSuccess) return;
  int rank = 0, nRanks = 0, device = -1;
  if (tuttiCommUserRank(handle(comm), &rank) != tuttiSuccess) return;
  if (tuttiCommCount(handle(comm), &nRanks) != tuttiSuccess) return;
  if (tuttiCommCuDevice(handle(comm), &device) != tuttiSuccess) return;
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  if (found == all.members.end() || found->second.announced) return;
  found->second.announced = true;
  --all.unannounced;
  logInfo(subject::kInit,
          format("nccl%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %llx commId 0x%016llx - Init COMPLETE",
                 found->second.function, static_cast<void*>(comm), rank, nRanks, device, device, busIdOf(device),
                 hashOf(found->second.key)));
}

void groupStarted() { ++groupDepth; }

void groupEnded() {
  if (groupDepth > 0) --groupDepth;
  if (groupDepth > 0) return;
  groupError = ncclSuccess;
  for (const auto& [place, comm] : std::exchange(madeInGroup, {})) {
    if (*place == comm) {
      announce(comm);
    } else {
      forget(comm);
    }
  }
}

void joinsInGroup(ncclComm_t* place) {
  if (groupDepth > 0) madeInGroup.emplace_back(place, *place);
}

void spoilGroup(ncclResult_t error) {
  if (groupDepth > 0 && groupError == ncclSuccess) groupError = error;
}

ncclResult_t spoiled() { return groupDepth == 1 ? groupError : ncclSuccess; }

unsigned long nextCall(ncclComm_t comm) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  return found == all.members.end() ? 0 : found->second.calls++;
}

ncclResult_t finalizeComm(ncclComm_t comm) {
  std::vector<ncclComm_t> due;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    const auto found = all.members.find(comm);
    if (found == all.members.end()) {
      due.push_back(comm);
    } else {
      if (const ncclResult_t bad = mayEnd("CommFinalize", found->second); bad != ncclSuccess) return bad;
      found->second.finalized = true;
      Clique& clique = all.cliques[found->second.key];
      clique.finalizing.push_back(comm);
      if (--clique.open <= 0) due = std::exchange(clique.finalizing, {});
    }
  }
  return endAll(due, kFinalize);
}

ncclResult_t revokeComm(ncclComm_t comm, int flags) {
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.members.find(comm);
    const ncclResult_t bad = found == all.members.end() ? ncclSuccess : mayEnd("CommRevoke", found->second);
    if (bad != ncclSuccess) return bad;
  }
  const ncclResult_t result = finish("CommRevoke", tuttiCommRevoke(handle(comm), flags));
  if (result != ncclSuccess) return result;
  const std::lock_guard lock(all.mutex);
  const auto found = all.members.find(comm);
  if (found != all.members.end()) found->second.revoked = true;
  all.anyRevoked.store(true, std::memory_order_relaxed);
  return ncclSuccess;
}

ncclResult_t destroyComm(ncclComm_t comm) {
  std::vector<ncclComm_t> due;
  if (!endMember(comm, true, &due)) return gone("CommDestroy");
  return endAll(due, kDestroy);
}

ncclResult_t abortComm(ncclComm_t comm) {
  std::vector<ncclComm_t> due;
  if (!endMember(comm, false, &due)) return gone("CommAbort");
  const ncclResult_t result = finish("CommAbort", tuttiCommAbort(handle(comm)));
  const ncclResult_t others = endAll(due, kDestroy);
  return result != ncclSuccess ? result : others;
}

}  // namespace tutti::nccl
