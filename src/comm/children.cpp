#include "src/comm/children.hpp"

#include <algorithm>
#include <cstring>

#include "src/bootstrap/unique_id.hpp"

namespace tutti {
namespace {

Result<std::shared_ptr<Session>> sessionFor(Comm& parent, bool share) {
  if (share) return parent.control().session();
  return Session::create();
}

JoinRequest childRequest(const Comm& parent, const std::string& label, const Session& session) {
  JoinRequest request;
  const Secret& secret = const_cast<Comm&>(parent).control().secret();
  request.commId = deriveCommId(secret, label);
  request.secret = deriveSecret(secret, label);
  request.self = session.endpoint();
  return request;
}

Result<std::vector<std::string>> exchange(Comm& parent, std::string blob) {
  Result<std::vector<std::string>> all = parent.control().allGather(std::move(blob), parent.deadline());
  if (!all.ok()) return parent.cause(all.status());
  return all;
}

struct SplitEntry {
  int color;
  int key;
  int rank;
};

}  // namespace

Result<ChildPlan> planSplit(Comm& parent, int color, int key, bool share) {
  const uint64_t number = parent.nextChild();
  ChildPlan child;
  if (color >= 0) {
    TUTTI_ASSIGN(child.session, sessionFor(parent, share));
  }
  int32_t mine[2] = {color, key};
  std::string blob(reinterpret_cast<const char*>(mine), sizeof mine);
  if (child.session) blob += child.session->endpoint();
  TUTTI_ASSIGN(const std::vector<std::string> all, exchange(parent, std::move(blob)));
  if (color < 0) return child;

  std::vector<SplitEntry> members;
  std::vector<Endpoint> endpoints(all.size());
  for (size_t r = 0; r < all.size(); ++r) {
    int32_t theirs[2];
    if (all[r].size() < sizeof theirs) return remoteError("rank ", r, " sent a malformed split request");
    std::memcpy(theirs, all[r].data(), sizeof theirs);
    endpoints[r] = all[r].substr(sizeof theirs);
    if (theirs[0] == color) members.push_back({theirs[0], theirs[1], static_cast<int>(r)});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const SplitEntry& a, const SplitEntry& b) { return a.key < b.key; });
  child.request = childRequest(parent, cat("split/", number, "/", color), *child.session);
  child.request.nRanks = static_cast<int>(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].rank == parent.rank()) child.request.rank = static_cast<int>(i);
    child.request.members.push_back(endpoints[static_cast<size_t>(members[i].rank)]);
  }
  return child;
}

// Every attempt is of one epoch's members, and the next epoch says what became of it: all have it, or who has not.
// Ranks that die meanwhile are missing from that decision, so that all try again together, under another name.
Result<std::unique_ptr<Comm>> joinShrunk(Comm& parent, const std::vector<int>& excluded, const CommSettings& settings,
                                         AbortState* abortState) {
  Control& control = parent.control();
  Vote vote{.excluded = excluded, .anew = true};
  std::vector<int> tried;
  Result<std::unique_ptr<Comm>> child = std::unique_ptr<Comm>();
  for (;;) {
    TUTTI_ASSIGN(const Decision decision, control.agree(vote, parent.deadline(), abortState->stopWord()));
    const std::vector<int> members = membersAfter(decision, parent.nRanks());
    if (members == tried && !decision.anew) {
      if (decision.objector < 0 || !child.ok()) return child;
      return remoteError("rank ", decision.objector, " (of the parent) could not join: ", decision.objection);
    }
    child = std::unique_ptr<Comm>();  // before the abortState, which it refers to
    if (!tried.empty() && !abortState->renew()) return abortState->failure();
    tried = members;
    // The survivors know the endpoints of the parent's Session only, so that they share it.
    const std::shared_ptr<Session>& session = control.session();
    JoinRequest request = childRequest(parent, childLabel("shrink", decision.epoch, members), *session);
    for (const int rank : members) {
      if (rank == parent.rank()) request.rank = static_cast<int>(request.members.size());
      request.members.push_back(control.endpoints()[static_cast<size_t>(rank)]);
    }
    request.nRanks = static_cast<int>(members.size());
    // Who dies before the child has a link to it would keep the join waiting.
    control.setOnGone([abortState, members](int rank) {
      if (!std::binary_search(members.begin(), members.end(), rank)) return;
      abortState->end(remoteError("rank ", rank, " of the parent has died while survivors were joining"));
    });
    child = Comm::join(session, std::move(request), settings, abortState);
    control.setOnGone({});
    vote = {.excluded = excluded, .objection = child.ok() ? "" : child.status().message()};
  }
}

Result<ChildPlan> planGrow(Comm& parent, int nRanks, const tuttiUniqueId* id) {
  std::string blob;
  if (id != nullptr) blob.assign(id->internal, sizeof id->internal);
  TUTTI_ASSIGN(const std::vector<std::string> all, exchange(parent, std::move(blob)));
  const std::string* given = nullptr;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    if (given != nullptr) return invalidUsage("more than one rank passed a uniqueId to tuttiCommGrow; one must");
    given = &all[r];
  }
  if (given == nullptr) return invalidUsage("no rank passed a uniqueId to tuttiCommGrow; one of the old ranks must");
  tuttiUniqueId rendezvous{};
  std::memcpy(rendezvous.internal, given->data(), std::min(given->size(), sizeof rendezvous.internal));
  TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(rendezvous));
  ChildPlan child;
  TUTTI_ASSIGN(child.session, Session::create());
  child.request.commId = place.commId;
  child.request.secret = place.secret;
  child.request.rendezvous = place.endpoint;
  child.request.self = child.session->endpoint();
  child.request.rank = parent.rank();
  child.request.nRanks = nRanks;
  return child;
}

}  // namespace tutti
