#include "tests/unit/control/sim_job.hpp"

namespace tutti {

SimJob::SimJob(SimWorld& world, const JobOptions& options)
    : world_(world), options_(options), ranks_(static_cast<size_t>(options.nRanks)) {
  for (int r = 0; r < options_.nRanks; ++r) {
    Rank& me = rank(r);
    me.node = world_.addNode();
    me.bootstrap = std::make_unique<BootstrapNode>(world_.network(me.node), [this, r] { changed(r); });
    world_.attach(me.node, me.bootstrap.get());
  }
  if (options_.rendezvousWithRank0) {
    placeNode_ = rank(0).node;
    place_ = rank(0).bootstrap.get();
  } else {
    placeNode_ = world_.addNode();
    ownPlace_ = std::make_unique<BootstrapNode>(world_.network(placeNode_), [] {});
    place_ = ownPlace_.get();
    world_.attach(placeNode_, place_);
  }
  const JoinRequest any = request(0);
  place_->serveRendezvous(any.commId, any.secret, "place");
  for (int r = 0; r < options_.nRanks; ++r)
    world_.at(options_.startSpreadNs > 0 ? world_.randomBetween(0, options_.startSpreadNs) : 0,
              [this, r] { start(r); });
}

JoinRequest SimJob::request(int r) const {
  JoinRequest request;
  request.commId = {1, 2, 3};
  request.secret = {4, 5, 6};
  request.rank = r;
  request.nRanks = options_.nRanks;
  request.self = SimWorld::controlAddress(ranks_[static_cast<size_t>(r)].node);
  request.rendezvous = SimWorld::controlAddress(placeNode_);
  request.info = cat("info of ", r);
  request.deadlineNs = world_.nowNs() + options_.joinNs;
  return request;
}

std::string SimJob::blob(int r, uint64_t n, size_t bytes) {
  std::string text = std::to_string(r) + ":" + std::to_string(n) + ":";
  text.resize(std::max(text.size(), bytes), static_cast<char>('a' + r % 26));
  return text;
}

bool SimJob::survives(int r) const {
  const int node = ranks_[static_cast<size_t>(r)].node;
  return world_.alive(node) && !world_.frozen(node);
}

void SimJob::start(int r) {
  Rank& me = rank(r);
  if (!survives(r) || me.phase != Rank::Phase::Waiting) return;
  me.phase = Rank::Phase::Joining;
  me.member = me.bootstrap->join(request(r));
  wait(r, options_.joinNs + options_.graceNs);
  changed(r);
}

void SimJob::changed(int r) { dirty_.push_back(r); }

/// As Control does: at the deadline ask everyone, and expect an answer within (twice) the grace.
void SimJob::wait(int r, int64_t ns) {
  const int mine = ++rank(r).waits;
  world_.at(world_.nowNs() + ns, [this, r, mine] {
    Rank& me = rank(r);
    if (me.waits != mine || !survives(r) || me.bootstrap->failure(me.member)) return;
    me.bootstrap->inquire(me.member, InquiryReason::Deadline, 0, -1, options_.graceNs);
    world_.at(world_.nowNs() + 2 * options_.graceNs + 100 * kMs, [this, r, mine] {
      Rank& late = rank(r);
      if (late.waits != mine || !survives(r) || late.bootstrap->failure(late.member)) return;
      late.complaint = "no failure within the grace after its deadline";
      finish(r);
    });
  });
}

void SimJob::finish(int r) {
  Rank& me = rank(r);
  me.failure = me.bootstrap->failure(me.member);
  me.phase = Rank::Phase::Done;
  me.endNs = world_.nowNs();
  ++me.waits;
  world_.at(world_.nowNs() + world_.randomBetween(0, 2 * kMs), [this, r] {
    if (!survives(r)) return;
    rank(r).bootstrap->leave(rank(r).member);
    if (options_.leaveExits) world_.at(world_.nowNs() + kMs, [this, r] { world_.kill(rank(r).node); });
  });
}

bool SimJob::gatherOne(Rank& me, int r) {
  while (static_cast<int>(me.gathers.size()) < options_.nGathers &&
         static_cast<int>(me.gathers.size()) < me.nGathered + options_.window)
    me.gathers.push_back(me.bootstrap->allGather(me.member, blob(r, me.gathers.size() + 1, options_.blobBytes)));
  if (me.nGathered == options_.nGathers) return false;
  const uint64_t n = me.gathers[static_cast<size_t>(me.nGathered)];
  const std::vector<std::string>* blobs = me.bootstrap->gathered(me.member, n);
  if (blobs == nullptr) return false;
  for (int other = 0; other < options_.nRanks; ++other)
    if ((*blobs)[static_cast<size_t>(other)] != blob(other, n, options_.blobBytes))
      me.complaint = cat("gather ", n, " got wrong bytes of rank ", other);
  me.bootstrap->forget(me.member, n);
  ++me.nGathered;
  wait(r, options_.gatherNs);
  return true;
}

/// One step of the rank's program; true if there may be another one at once.
bool SimJob::stepOnce(int r) {
  Rank& me = rank(r);
  if (me.phase == Rank::Phase::Waiting || me.phase == Rank::Phase::Done || !survives(r)) return false;
  if (me.bootstrap->failure(me.member)) {
    finish(r);
    return false;
  }
  if (me.phase == Rank::Phase::Joining) {
    if (!me.bootstrap->up(me.member)) return false;
    me.upNs = world_.nowNs();
    for (int other = 0; other < options_.nRanks; ++other)
      if (me.bootstrap->infos(me.member)[static_cast<size_t>(other)] != "info of " + std::to_string(other) ||
          me.bootstrap->controlAddresses(me.member)[static_cast<size_t>(other)] !=
              SimWorld::controlAddress(rank(other).node))
        me.complaint = cat("wrong information of rank ", other);
    me.phase = Rank::Phase::Gathering;
    wait(r, options_.gatherNs);
    return true;
  }
  if (me.phase == Rank::Phase::Gathering) {
    if (gatherOne(me, r)) return true;
    if (me.nGathered < options_.nGathers) return false;
    me.phase = Rank::Phase::Idle;
    ++me.waits;
    if (options_.inquireWhenIdle && world_.random() % 2 == 0)
      me.bootstrap->inquire(me.member, InquiryReason::Stalled, 0, -1, options_.graceNs);
    world_.at(world_.nowNs() + options_.idleNs, [this, r] {
      if (rank(r).phase == Rank::Phase::Idle && survives(r)) finish(r);
    });
  }
  return false;
}

void SimJob::stepDirty() {
  while (!dirty_.empty()) {
    const int r = dirty_.back();
    dirty_.pop_back();
    while (stepOnce(r)) {
    }
  }
}

std::string SimJob::run(int64_t limitNs) {
  int checked = 0;  // ranks below are done
  const bool ended = world_.runUntil(
      [&] {
        stepDirty();
        while (checked < options_.nRanks && (!survives(checked) || rank(checked).phase == Rank::Phase::Done)) ++checked;
        return checked == options_.nRanks;
      },
      limitNs);
  for (int r = 0; r < options_.nRanks; ++r) {
    if (!rank(r).complaint.empty()) return cat("rank ", r, ": ", rank(r).complaint);
    if (!ended && survives(r) && rank(r).phase != Rank::Phase::Done)
      return cat("rank ", r, " hangs in phase ", static_cast<int>(rank(r).phase), " at ", world_.nowNs() / kMs, " ms");
  }
  return {};
}

}  // namespace tutti
