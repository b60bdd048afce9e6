#include "tests/support/sim_collective.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/base/text.hpp"

namespace tutti::test {

SimCollective::SimCollective(std::vector<Schedule> schedules, const SimCollectiveOptions& options)
    : schedules_(std::move(schedules)),
      leaveOnError_(options.leaveOnError),
      world_(options.seed),
      fabric_(world_, options.links, static_cast<int>(schedules_.size())),
      vectors_(schedules_, options.count),
      ranks_(schedules_.size()) {
  world_.setDelay(options.latencyNs, options.latencyNs + options.jitterNs);
  fabric_.onArrival([this](int rank) { wake(rank); });
  for (int r = 0; r < nRanks(); ++r) {
    TUTTI_ASSERT_CMP(static_cast<uint32_t>(schedules_[static_cast<size_t>(r)].slotsNeeded), <=, options.links.slots);
    bind(r, options);
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.beginNs = world_.randomBetween(0, options.startSpreadNs);
    world_.at(rank.beginNs, [this, r] { begin(r); });
  }
}

SimCollective::~SimCollective() { fabric_.onArrival(nullptr); }

void SimCollective::bind(int r, const SimCollectiveOptions& options) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const Schedule& schedule = schedules_[static_cast<size_t>(r)];
  rank.transport = fabric_.transport(r);
  const size_t sliceBytes = options.links.slotBytes / sizeof(uint32_t) * sizeof(uint32_t);
  TUTTI_ASSERT_CMP(sliceBytes, >, 0u);
  Result<std::unique_ptr<Plan>> plan =
      bindPlan(schedule, evenLayout(schedule, options.count, sizeof(uint32_t)), sizeof(uint32_t), sliceBytes,
               [this, r](int peer, int lane) { return endpoint(r, peer, lane); });
  TUTTI_ASSERT(plan.ok());
  rank.plan = std::move(*plan);
  rank.run = std::make_unique<CollectiveRun>(*rank.plan);
}

Result<Endpoint*> SimCollective::endpoint(int r, int peer, int lane) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  std::unique_ptr<Endpoint>& endpoint = rank.endpoints[{peer, lane}];
  if (endpoint == nullptr) {
    TUTTI_ASSIGN(endpoint, awaitEndpoint(*rank.transport, peer, cat("sim:", peer), lane, Deadline::never()));
  }
  return endpoint.get();
}

void SimCollective::begin(int r) {
  if (!world_.alive(fabric_.node(r)) || world_.frozen(fabric_.node(r))) return;
  Rank& rank = ranks_[static_cast<size_t>(r)];
  rank.run->begin(vectors_.buffers(r), {});
  rank.state = State::Running;
  wake(r);
}

void SimCollective::wake(int r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  if (rank.queued || rank.state != State::Running) return;
  rank.queued = true;
  awake_.push_back(r);
}

std::string SimCollective::run() {
  do stepAwake();
  while (nEnded_ < nRanks() && world_.step());
  return complaint();
}

void SimCollective::stepAwake() {
  while (!awake_.empty()) {
    const int r = awake_.back();
    awake_.pop_back();
    ranks_[static_cast<size_t>(r)].queued = false;
    if (world_.alive(fabric_.node(r)) && !world_.frozen(fabric_.node(r))) step(r);
  }
}

void SimCollective::step(int r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  while (true) {
    const Result<Progress> progress = rank.run->step();
    if (!progress.ok()) return fail(r, progress.status());
    if (*progress == Progress::Blocked) return;
    if (*progress == Progress::Moved) continue;
    rank.state = State::Done;
    rank.doneNs = world_.nowNs();
    endNs_ = std::max(endNs_, rank.doneNs);
    ++nEnded_;
    return;
  }
}

void SimCollective::fail(int r, const Status& error) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  rank.state = State::Failed;
  rank.error = error;
  ++nEnded_;
  rank.run->abandon();
  if (leaveOnError_) rank.endpoints.clear();
}

std::string SimCollective::complaint() const {
  for (int r = 0; r < nRanks(); ++r) {
    if (state(r) == State::Failed) return cat("rank ", r, ": ", error(r).message());
  }
  if (nEnded_ < nRanks()) return cat("at ", world_.nowNs(), " ns nothing can happen any more: ", describeWaits());
  for (int r = 0; r < nRanks(); ++r) {
    if (std::string text = wrongResult(r); !text.empty()) return text;
  }
  return {};
}

std::string SimCollective::wrongResult(int r) const {
  if (schedules_.front().collective != Collective::Barrier) return vectors_.check(r);
  const int64_t doneNs = ranks_[static_cast<size_t>(r)].doneNs;
  for (int other = 0; other < nRanks(); ++other) {
    const Rank& rank = ranks_[static_cast<size_t>(other)];
    if (rank.state == State::NotBegun || rank.beginNs > doneNs) {
      return cat("rank ", r, " left the barrier at ", doneNs, " ns, before rank ", other, " came to it");
    }
  }
  return {};
}

std::string SimCollective::describeWaits() const {
  std::string text;
  for (int r = 0; r < nRanks(); ++r) {
    const Rank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.state == State::NotBegun) text += cat("rank ", r, " has not begun; ");
    if (rank.state != State::Running) continue;
    for (size_t lane = 0; lane < rank.plan->lanes.size(); ++lane) {
      if (const int peer = rank.run->waitingOn(lane); peer >= 0) {
        text += cat("rank ", r, " lane ", lane, " waits for rank ", peer, "; ");
      }
    }
  }
  return text.empty() ? "nobody waits" : text.substr(0, text.size() - 2);
}

std::string SimCollective::checkWaitsLeadTo(const std::vector<int>& culprits) const {
  for (int r = 0; r < nRanks(); ++r) {
    if (state(r) != State::Running || std::find(culprits.begin(), culprits.end(), r) != culprits.end()) continue;
    bool waits = false;
    for (size_t lane = 0; lane < ranks_[static_cast<size_t>(r)].plan->lanes.size(); ++lane) {
      if (ranks_[static_cast<size_t>(r)].run->waitingOn(lane) < 0) continue;
      waits = true;
      if (std::string text = followWait(r, lane, culprits); !text.empty()) return text;
    }
    if (!waits) return cat("rank ", r, " has not ended and waits for nobody");
  }
  return {};
}

// Lanes are independent: a chain of waits stays in its lane.
std::string SimCollective::followWait(int start, size_t lane, const std::vector<int>& culprits) const {
  int r = start;
  for (int hops = 0; hops <= nRanks(); ++hops) {
    const bool culprit = std::find(culprits.begin(), culprits.end(), r) != culprits.end();
    if (culprit || state(r) == State::Failed) return {};
    const int next = state(r) == State::Running ? ranks_[static_cast<size_t>(r)].run->waitingOn(lane) : -1;
    if (next < 0)
      return cat("rank ", start, " lane ", lane, " waits in the end for rank ", r, ", which waits for nobody");
    r = next;
  }
  return cat("rank ", start, " lane ", lane, " waits in a circle");
}

}  // namespace tutti::test
