#include "tests/unit/world/data_job.hpp"

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "tests/support/passes.hpp"
#include "tests/unit/algorithms/shapes.hpp"

namespace tutti::test {
namespace {

constexpr int64_t kJoinNs = 2'000 * kMs, kCallNs = 500 * kMs, kGraceNs = 200 * kMs, kDecisionNs = 5'000 * kMs;
constexpr int64_t kLimitNs = 120'000 * kMs;
constexpr int64_t kStopNs = 20 * kMs;  // well below what makes a rank suspect
constexpr size_t kSlotBytes = 256;

}  // namespace

DataJob::DataJob(const DataPlan& plan) : plan_(plan), world_(plan.seed) {
  world_.setDelay(10'000, std::max<int64_t>(plan.mostDelayNs, 10'000));
  ranks_.resize(static_cast<size_t>(plan.nRanks));
  for (int r = 0; r < plan.nRanks; ++r) boot(r);
}

void DataJob::boot(int r) {
  ranks_[static_cast<size_t>(r)] = std::make_unique<Rank>();
  at(r).node = world_.addNode();
  at(r).bootstrap = std::make_unique<BootstrapNode>(world_.network(at(r).node), [this, r] { dirty(r); });
  world_.attach(at(r).node, at(r).bootstrap.get());
}

DataJob::~DataJob() {
  for (const auto& [name, shared] : shared_) shared->fabric->onArrival(nullptr);
}

std::string DataJob::run() {
  std::vector<int> everyone;
  for (int r = 0; r < plan_.nRanks; ++r) everyone.push_back(r);
  for (const int r : everyone) at(r).comm = join(r, "world", everyone);
  const bool met = runUntil(
      [&] {
        return std::all_of(everyone.begin(), everyone.end(),
                           [&](int r) { return at(r).bootstrap->up(at(r).comm->member); });
      },
      kLimitNs);
  if (!met) return "the ranks did not meet";
  schedule();
  const auto over = [this](int r) { return isOver(r); };
  const bool ended =
      runUntil([&] { return std::all_of(everyone.begin(), everyone.end(), over); }, world_.nowNs() + kLimitNs);
  if (!wrong_.empty()) return wrong_;
  for (const int r : everyone) {
    if (!ended && !over(r)) {
      return cat("rank ", r, " waits in phase ", static_cast<int>(at(r).phase), " of ", at(r).comm->name, " at ",
                 world_.nowNs() / kMs, " ms");
    }
  }
  if (nRefused_ > 0 && !plan_.cut) return cat(nRefused_, " ranks could not go on although all reach each other");
  const bool calm = plan_.crashes.empty() && !plan_.cut && (plan_.resumes || plan_.breaksPerMillion == 0);
  if (calm && nShrinks_ > 0) return cat(nShrinks_, " ranks shrank although nobody died and no link was lost");
  return {};
}

/// A rank that is there again waits to be taken in, which nobody may come to.
bool DataJob::isOver(int r) {
  const Rank& one = at(r);
  return !world_.alive(one.node) || one.phase == Phase::Done || (one.again && one.phase == Phase::Waiting);
}

uint64_t DataJob::nBreaks() const {
  uint64_t sum = 0;
  for (const auto& [name, shared] : shared_) sum += shared->fabric->nBreaks();
  return sum;
}

void DataJob::schedule() {
  const int64_t now = world_.nowNs();
  for (int r = 0; r < plan_.nRanks; ++r) {
    world_.at(now + world_.randomBetween(0, kMs), [this, r] {
      if (!world_.alive(at(r).node) || at(r).again) return;
      at(r).phase = Phase::Working;
      dirty(r);
    });
  }
  for (const auto& [rank, ns] : plan_.crashes) world_.at(now + ns, [this, r = rank] { crash(r); });
  for (const auto& [rank, ns] : plan_.stops) {
    world_.at(now + ns, [this, r = rank] { world_.freeze(at(r).node); });
    world_.at(now + ns + kStopNs, [this, r = rank] {
      world_.thaw(at(r).node);
      dirty(r);
    });
  }
  for (const auto& [rank, ns] : plan_.restarts) world_.at(now + ns, [this, r = rank] { restart(r); });
  if (plan_.cut) world_.cut(at(plan_.cut->first).node, at(plan_.cut->second).node);
}

void DataJob::crash(int r) {
  world_.kill(at(r).node);
  for (const auto& [name, shared] : shared_) {
    const auto found = std::find(shared->ranks.begin(), shared->ranks.end(), r);
    if (found != shared->ranks.end()) shared->fabric->kill(static_cast<int>(found - shared->ranks.begin()));
  }
}

// A new process on a new node; deadlines of the one that died must not mean it.
void DataJob::restart(int r) {
  if (world_.alive(at(r).node)) return;
  const int waits = at(r).waits;
  dead_.push_back(std::move(ranks_[static_cast<size_t>(r)]));
  boot(r);
  at(r).again = true;
  at(r).waits = waits + 1'000'000;
}

bool DataJob::runUntil(const std::function<bool()>& done, int64_t limitNs) {
  return world_.runUntil(
      [&] {
        while (!dirty_.empty()) {
          const int r = dirty_.back();
          dirty_.pop_back();
          while (wrong_.empty() && goes(r) && step(r)) {
          }
        }
        return !wrong_.empty() || done();
      },
      limitNs);
}

// ---- Communicators

std::unique_ptr<DataJob::End> DataJob::join(int r, const std::string& name, const std::vector<int>& ranks) {
  auto end = std::make_unique<End>();
  end->name = name;
  end->ranks = ranks;
  JoinRequest request;
  request.commId = deriveCommId(Secret{7}, name);
  request.secret = deriveSecret(Secret{7}, name);
  request.nRanks = static_cast<int>(ranks.size());
  for (const int other : ranks) {
    if (other == r) request.rank = end->rank = static_cast<int>(request.members.size());
    request.members.push_back(SimWorld::controlAddress(at(other).node));
  }
  request.self = SimWorld::controlAddress(at(r).node);
  request.deadlineNs = world_.nowNs() + kJoinNs;
  end->member = at(r).bootstrap->join(request);
  return end;
}

/// The calls are drawn by the first that comes; all make the same.
DataJob::Shared& DataJob::sharedOf(const End& end) {
  std::unique_ptr<Shared>& shared = shared_[end.name];
  if (shared != nullptr) return *shared;
  shared = std::make_unique<Shared>();
  shared->ranks = end.ranks;
  drawCalls(shared.get());
  std::vector<int> nodes;
  for (const int r : end.ranks) nodes.push_back(at(r).node);
  shared->fabric = std::make_unique<SimFabric>(world_, shared->options, nodes);
  shared->fabric->onArrival([this, s = shared.get()](int rank) { dirty(s->ranks[static_cast<size_t>(rank)]); });
  return *shared;
}

void DataJob::drawCalls(Shared* shared) {
  const int n = static_cast<int>(shared->ranks.size());
  shared->options = {.slots = 1, .slotBytes = kSlotBytes};
  shared->options.resumes = plan_.resumes;
  if (plan_.resumes || shared_.size() <= 2) shared->options.breaksPerMillion = plan_.breaksPerMillion;
  const auto all = algorithms();
  // Of many ranks a schedule of n^2 steps is all that a run does.
  const auto fits = [&](const Algorithm& a, const Shape& shape) {
    return a.collective != Collective::Barrier && (n <= 64 || a.collective == Collective::AllReduce) &&
           (n <= 64 || a.name == "doubling" || a.name == "tree" || a.name == "halving-doubling") && a.supports(shape);
  };
  for (int tries = 0; n > 1 && static_cast<int>(shared->schedules.size()) < plan_.nCalls && tries < 1000; ++tries) {
    const Algorithm& algorithm =
        *all[static_cast<size_t>(world_.randomBetween(0, static_cast<int64_t>(all.size()) - 1))];
    Shape shape{.collective = algorithm.collective, .nRanks = n, .inPlace = world_.random() % 2 == 0};
    if (isRooted(algorithm.collective)) shape.root = static_cast<int>(world_.randomBetween(0, n - 1));
    const auto count = static_cast<size_t>(world_.randomBetween(0, n <= 64 ? 200 : 20));
    shape.bytes = count * sizeof(uint32_t);
    shape.slotBytes = kSlotBytes;
    if (!fits(algorithm, shape)) continue;
    shared->schedules.push_back(rewrite(buildAll(algorithm, shape), {}));
    shared->counts.push_back(count);
    shared->options.slots =
        std::max(shared->options.slots, static_cast<uint32_t>(slotsNeeded(shared->schedules.back())));
  }
  for (size_t i = 0; i < shared->schedules.size(); ++i)
    shared->vectors.push_back(std::make_unique<Vectors>(shared->schedules[i], shared->counts[i]));
}

// ---- One rank's program; each step says whether there may be another one at once

bool DataJob::step(int r) {
  switch (at(r).phase) {
    case Phase::Waiting:
    case Phase::Done: return false;
    case Phase::Working:
    case Phase::Leaving: return work(r);
    case Phase::Voting: return vote(r);
    case Phase::Joining: return joinChild(r);
    case Phase::Growing: return grow(r);
  }
  return false;
}

bool DataJob::work(int r) {
  Rank& me = at(r);
  End& comm = *me.comm;
  if (me.bootstrap->failure(comm.member)) return failed(r), true;
  if (me.phase == Phase::Leaving) return leave(r);
  if (comm.shared == nullptr) comm.shared = &sharedOf(comm);
  if (comm.run == nullptr && comm.call == static_cast<int>(comm.shared->schedules.size())) {
    comm.farewell = me.bootstrap->allGather(comm.member, comm.rank == 0 ? awaiting() : "");
    me.phase = Phase::Leaving;
    wait(r);
    return true;
  }
  if (comm.run == nullptr) begin(r);
  return wrong_.empty() && advance(r);
}

void DataJob::begin(int r) {
  End& comm = *at(r).comm;
  Shared& shared = *comm.shared;
  const auto call = static_cast<size_t>(comm.call);
  const Schedule& schedule = shared.schedules[call][static_cast<size_t>(comm.rank)];
  if (comm.transport == nullptr) comm.transport = shared.fabric->transport(comm.rank);
  const auto endpoint = [&](int peer, int lane) -> Result<Endpoint*> {
    std::unique_ptr<Endpoint>& made = comm.endpoints[{peer, lane}];
    if (made == nullptr) {
      TUTTI_ASSIGN(made, awaitEndpoint(*comm.transport, peer, cat("sim:", peer), lane, Deadline::never()));
    }
    return made.get();
  };
  Result<std::unique_ptr<Plan>> plan = bindPlan(schedule, evenLayout(schedule, shared.counts[call], sizeof(uint32_t)),
                                                sizeof(uint32_t), kSlotBytes, endpoint);
  if (!plan.ok()) {
    wrong_ = cat("rank ", r, " has no plan: ", plan.status().message());
    return;
  }
  comm.plan = std::move(*plan);
  comm.run = std::make_unique<CollectiveRun>(*comm.plan);
  CallBuffers buffers = shared.vectors[call]->buffers(comm.rank);
  buffers.call = makeFingerprint({.sequence = static_cast<uint32_t>(comm.call)});
  comm.run->begin(buffers, {});
  wait(r);
}

bool DataJob::advance(int r) {
  Rank& me = at(r);
  End& comm = *me.comm;
  const Result<Progress> progress = comm.run->step();
  if (!progress.ok()) {
    me.bootstrap->reportFailure(comm.member, {comm.run->waitingOn(), progress.status()});
    return true;
  }
  if (*progress != Progress::Done) return *progress == Progress::Moved;
  const std::string wrong = comm.shared->vectors[static_cast<size_t>(comm.call)]->check(comm.rank);
  if (!wrong.empty()) wrong_ = cat("rank ", r, " has success for call ", comm.call, " of ", comm.name, " and ", wrong);
  ++nRight_;
  comm.run.reset();
  ++comm.call;
  return true;
}

/// As a communicator does: the call in flight ends, links close, and those who live go on without the dead.
void DataJob::failed(int r) {
  Rank& me = at(r);
  ++me.waits;
  if (me.comm->run != nullptr) {
    me.comm->run->abandon();
    ++nErrors_;
  }
  me.comm->run.reset();
  me.comm->endpoints.clear();
  me.shrink.emplace(static_cast<int>(me.comm->ranks.size()), std::vector<int>{}, true);
  me.seen = 0;
  me.voted = false;
  me.phase = Phase::Voting;
  ++nShrinks_;
}

/// As Control does: at the deadline all are asked, and the error is there within the grace.
void DataJob::wait(int r) {
  const int mine = ++at(r).waits;
  const auto pending = [this, r, mine] {
    return at(r).waits == mine && goes(r) && !at(r).bootstrap->failure(at(r).comm->member);
  };
  world_.at(world_.nowNs() + kCallNs, [this, r, pending] {
    if (!pending()) return;
    at(r).bootstrap->inquire(at(r).comm->member, InquiryReason::Deadline, 0, -1, kGraceNs);
    world_.at(world_.nowNs() + 2 * kGraceNs + 100 * kMs, [this, r, pending] {
      if (pending()) wrong_ = cat("rank ", r, " has neither result nor error within the grace after its deadline");
    });
  });
}

// ---- Shrinking, as comm/children.cpp does it

/// A rank that cannot reach the one who decides has an error at its deadline.
void DataJob::waitForDecision(int r) {
  const int mine = ++at(r).waits;
  world_.at(world_.nowNs() + kDecisionNs, [this, r, mine] {
    if (at(r).waits != mine || at(r).phase != Phase::Voting || !goes(r)) return;
    ++nRefused_;
    at(r).bootstrap->leave(at(r).comm->member);
    at(r).phase = Phase::Done;
  });
}

bool DataJob::vote(int r) {
  Rank& me = at(r);
  const Agreement& agreement = me.bootstrap->agreement(me.comm->member);
  if (agreement.excludedBy() >= 0 && !plan_.cut) wrong_ = cat("rank ", r, " is excluded from ", me.comm->name);
  if (agreement.excludedBy() >= 0) {
    ++nRefused_;
    ++me.waits;
    me.phase = Phase::Done;
    return false;
  }
  if (agreement.decided().epoch == me.seen) {
    if (!std::exchange(me.voted, true)) {
      me.bootstrap->vote(me.comm->member, me.shrink->vote());
      waitForDecision(r);
    }
    if (agreement.decided().epoch == me.seen) return false;  // a rank alone decides at once
  }
  ++me.waits;
  const Decision decision = agreement.decided();
  me.seen = decision.epoch;
  me.voted = false;
  const auto& [key, same] = *decisions_.try_emplace({me.comm->name, me.seen}, decision).first;
  if (!(same == decision)) wrong_ = cat("rank ", r, " has another decision of epoch ", me.seen, " of ", me.comm->name);
  me.shrink->onDecision(decision);
  if (me.shrink->next() == Shrink::Next::End) return goOn(r);
  if (me.child) me.bootstrap->leave(me.child->member);
  std::vector<int> ranks;
  for (const int member : me.shrink->members()) ranks.push_back(me.comm->ranks[static_cast<size_t>(member)]);
  me.child = join(r, cat(me.comm->name, " ", me.shrink->label()), ranks);
  me.phase = Phase::Joining;
  return true;
}

bool DataJob::joinChild(int r) {
  Rank& me = at(r);
  Status joined;
  const std::vector<int>& members = me.shrink->members();
  const Agreement& agreement = me.bootstrap->agreement(me.comm->member);
  const auto gone = std::find_if(members.begin(), members.end(), [&](int rank) { return agreement.isGone(rank); });
  if (gone != members.end()) joined = remoteError("rank ", *gone, " is gone");
  if (joined.ok() && me.bootstrap->failure(me.child->member)) {
    joined = me.bootstrap->failure(me.child->member)->status;
  }
  if (joined.ok() && !me.bootstrap->up(me.child->member)) return false;
  if (!joined.ok()) {
    me.bootstrap->leave(me.child->member);
    me.child.reset();
  }
  me.shrink->onJoined(joined);
  me.phase = Phase::Voting;
  return true;
}

bool DataJob::goOn(int r) {
  Rank& me = at(r);
  me.bootstrap->leave(me.comm->member);
  if (!me.shrink->outcome().ok() || me.child == nullptr) {
    ++nRefused_;
    me.phase = Phase::Done;
    return false;
  }
  me.comm = std::move(me.child);
  me.phase = Phase::Working;
  return true;
}

// ---- Growing: rank 0 says by the last gather of a communicator who is there again, as a program tells its ranks
// before it grows; those join with all that are left, as by an id that came by other ways.

std::string DataJob::awaiting() {
  std::string list;
  for (int r = 0; r < plan_.nRanks; ++r) {
    if (at(r).again && at(r).phase == Phase::Waiting && goes(r)) list += cat(r, " ");
  }
  return list;
}

bool DataJob::leave(int r) {
  Rank& me = at(r);
  const auto* const said = me.bootstrap->gathered(me.comm->member, me.comm->farewell);
  if (said == nullptr) return false;
  ++me.waits;
  std::vector<int> ranks = me.comm->ranks;
  for (const std::string& one : split((*said)[0], ' ')) {
    if (!one.empty()) ranks.push_back(std::stoi(one));
  }
  if (ranks.size() == me.comm->ranks.size()) {
    me.phase = Phase::Done;
    me.bootstrap->leave(me.comm->member);
    return false;
  }
  const std::string name = cat(me.comm->name, " grown");
  for (size_t i = me.comm->ranks.size(); i < ranks.size(); ++i) {
    const int other = ranks[i];
    if (me.comm->rank != 0 || !goes(other) || at(other).phase != Phase::Waiting) continue;
    at(other).child = join(other, name, ranks);
    at(other).phase = Phase::Growing;
    dirty(other);
  }
  me.child = join(r, name, ranks);
  me.phase = Phase::Growing;
  return true;
}

/// Where it does not come up the communicator before has made all its calls: nobody needs to go on.
bool DataJob::grow(int r) {
  Rank& me = at(r);
  const bool failed = me.bootstrap->failure(me.child->member).has_value();
  if (!failed && !me.bootstrap->up(me.child->member)) return false;
  if (me.comm != nullptr) me.bootstrap->leave(me.comm->member);
  if (failed) {
    me.bootstrap->leave(me.child->member);
    me.phase = Phase::Done;
    return false;
  }
  if (me.again) ++nGrown_;
  me.comm = std::move(me.child);
  me.phase = Phase::Working;
  return true;
}

}  // namespace tutti::test
