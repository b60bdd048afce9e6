// Agreements as they are carried (survivors.hpp), in the seeded world: ranks shrink a communicator that was revoked,
// and the next one that a death breaks, or split; ranks die at every message that they send or receive meanwhile, the
// handshakes of links and the joining of children included.  All that live end with each other, and nobody waits.  A
// revocation reaches all of them if it reaches one.
// A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/clock.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/membership/shrink.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/sim/world.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti;

namespace {

constexpr int64_t kJoinNs = 600'000 * kMs;  // a deadline that nobody may need
constexpr int64_t kLimitNs = 20'000 * kMs;

/// A node whose messages are counted; it dies at one of them.
class Node : public Network, public Machine {
 public:
  Node(SimWorld& world, std::function<void()> changed)
      : world_(world), number_(world.addNode()), net_(world.network(number_)) {
    bootstrap = std::make_unique<BootstrapNode>(*this, std::move(changed));
    world_.attach(number_, this);
  }
  bool alive() const { return world_.alive(number_); }
  int number() const { return number_; }
  void kill() { world_.kill(number_); }

  std::unique_ptr<BootstrapNode> bootstrap;
  bool counts = false;
  int messages = 0, diesAt = -1;

  int64_t nowNs() override { return net_.nowNs(); }
  void randomBytes(std::span<std::byte> out) override { net_.randomBytes(out); }
  LinkId dial(const ControlAddress& to) override { return alive() ? net_.dial(to) : ++deadDials_; }
  void send(LinkId link, std::string_view message) override {
    if (step()) net_.send(link, message);
  }
  void close(LinkId link) override {
    if (alive()) net_.close(link);
  }
  void handOver(LinkId link, const std::string& key, const DirectionKeys& keys) override {
    net_.handOver(link, key, keys);
  }

  void onAccepted(LinkId link) override { bootstrap->onAccepted(link); }
  void onConnected(LinkId link) override { bootstrap->onConnected(link); }
  void onMessage(LinkId link, std::string_view message) override {
    if (step()) bootstrap->onMessage(link, message);
  }
  void onClosed(LinkId link, const Status& why) override { bootstrap->onClosed(link, why); }
  int64_t nextTimerNs() const override { return bootstrap->nextTimerNs(); }
  void onTimer() override { bootstrap->onTimer(); }
  size_t messageLimit(LinkId link) const override { return bootstrap->messageLimit(link); }

 private:
  bool step() {
    if (counts && alive() && messages++ == diesAt) kill();
    return alive();
  }
  SimWorld& world_;
  const int number_;
  Network& net_;
  LinkId deadDials_ = uint64_t{1} << 62;
};

enum class Program {
  Revoke,  // rank 0 revokes; the others need not hear of it, but if one has, all have
  Shrink,  // whenever a communicator fails, until a gather over one is done
  Split,   // once, by even and odd ranks
};

struct Plan {
  uint64_t seed = 1;
  int nRanks = 2;
  Program program = Program::Shrink;
  std::vector<std::pair<int, int>> crashes{};  // rank, message
  int64_t mostDelayNs = 1 * kMs;
  int resetAt = -1;  // message of all, from when the ranks are up
};

/// One rank's end of a communicator.
struct End {
  MemberId member = 0;
  std::string name;
  std::vector<int> ranks;  // of the first communicator
  int rank = 0;
  uint64_t gather = 0;  // the first communicator's ranks wait for its end only
};

class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan), world_(plan.seed) {
    world_.setDelay(10'000, plan.mostDelayNs);
    for (int r = 0; r < plan.nRanks; ++r) {
      ranks_.push_back(std::make_unique<Rank>());
      at(r).node = std::make_unique<Node>(world_, [this, r] { dirty_.push_back(r); });
      at(r).all.push_back(r);
    }
    for (const auto& [rank, message] : plan.crashes) at(rank).node->diesAt = message;
  }

  /// Empty, or what is wrong.
  std::string run() {
    std::vector<int> everyone;
    for (int r = 0; r < plan_.nRanks; ++r) everyone.push_back(r);
    for (int r = 0; r < plan_.nRanks; ++r) at(r).comm = join(r, "world", everyone);
    const bool up = runUntil([&] {
      return std::all_of(everyone.begin(), everyone.end(), [&](int r) { return boot(r).up(at(r).comm.member); });
    });
    if (!up) return "the ranks did not meet";
    begunNs_ = world_.nowNs();
    firstMessage_ = world_.nMessages();
    if (plan_.resetAt >= 0) world_.resetAtMessage(firstMessage_ + static_cast<uint64_t>(plan_.resetAt));
    for (auto& rank : ranks_) rank->node->counts = true;
    if (plan_.program == Program::Revoke) return revoke();
    for (const int r : everyone) {
      world_.at(begunNs_ + world_.randomBetween(0, 2 * kMs), [this, r] {
        if (!at(r).node->alive()) return;
        at(r).phase = plan_.program == Program::Shrink ? Phase::Working : Phase::Voting;
        dirty_.push_back(r);
      });
    }
    if (plan_.program == Program::Shrink) {
      const int revoker = static_cast<int>(world_.random() % static_cast<uint64_t>(plan_.nRanks));
      world_.at(begunNs_ + world_.randomBetween(0, 4 * kMs), [this, revoker] {
        if (at(revoker).node->alive() && at(revoker).comm.name == "world")
          boot(revoker).reportFailure(at(revoker).comm.member, {revoker, remoteError("revoked"), true});
      });
    }
    const bool ended = runUntil([&] {
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [](const auto& rank) { return !rank->node->alive() || rank->phase == Phase::Done; });
    });
    if (!wrong_.empty()) return wrong_;
    for (const int r : everyone)
      if (!ended && at(r).node->alive() && at(r).phase != Phase::Done)
        return cat("rank ", r, " waits in phase ", static_cast<int>(at(r).phase), " of ", at(r).comm.name);
    return {};
  }

  bool crashed(int r) { return !at(r).node->alive(); }
  int messages(int r) { return at(r).node->messages; }
  int64_t tookNs() { return world_.nowNs() - begunNs_; }
  int nShrinks() const { return nShrinks_; }
  int nFailed() const { return nFailed_; }
  bool wasReset() const { return world_.nResets() > 0; }
  size_t newestRanks(int r) { return at(r).comm.ranks.size(); }

 private:
  enum class Phase : uint8_t { Waiting, Working, Voting, Joining, Done };
  struct Rank {
    std::unique_ptr<Node> node;
    std::vector<int> all;
    Phase phase = Phase::Waiting;
    End comm;
    std::optional<End> child;
    std::optional<Shrink> shrink;
    bool voted = false;
    uint64_t seen = 0;  // epochs of comm
  };
  Rank& at(int r) { return *ranks_[static_cast<size_t>(r)]; }
  BootstrapNode& boot(int r) { return *at(r).node->bootstrap; }

  bool runUntil(const std::function<bool()>& done) {
    return world_.runUntil(
        [&] {
          while (!dirty_.empty()) {
            const int r = dirty_.back();
            dirty_.pop_back();
            while (at(r).node->alive() && wrong_.empty() && step(r)) {
            }
          }
          return !wrong_.empty() || done();
        },
        kLimitNs);
  }

  /// A word of the revoker to any rank that lives is a word to all, whatever they hear of first.
  std::string revoke() {
    world_.at(begunNs_, [this] { boot(0).reportFailure(at(0).comm.member, {0, remoteError("revoked"), true}); });
    (void)runUntil([&] { return world_.nowNs() > begunNs_ + 100 * kMs; });
    int heard = 0, live = 0;
    for (int r = 0; r < plan_.nRanks; ++r) {
      if (!at(r).node->alive()) continue;
      ++live;
      if (!boot(r).failure(at(r).comm.member)) return cat("rank ", r, " has heard of nothing");
      heard += boot(r).endOnPurpose(at(r).comm.member).has_value();
      nFailed_ += boot(r).endOnPurpose(at(r).comm.member) && !boot(r).failure(at(r).comm.member)->onPurpose;
    }
    return heard == 0 || heard == live ? "" : cat(heard, " of ", live, " ranks have heard of the revocation");
  }

  End join(int r, const std::string& name, const std::vector<int>& ranks) {
    End end{.name = name, .ranks = ranks};
    JoinRequest request;
    request.commId = deriveCommId(Secret{7}, name);
    request.secret = deriveSecret(Secret{7}, name);
    request.nRanks = static_cast<int>(ranks.size());
    for (const int other : ranks) {
      if (other == r) request.rank = end.rank = static_cast<int>(request.members.size());
      request.members.push_back(SimWorld::controlAddress(at(other).node->number()));
    }
    request.self = SimWorld::controlAddress(at(r).node->number());
    request.deadlineNs = world_.nowNs() + kJoinNs;
    end.member = boot(r).join(request);
    return end;
  }

  /// One step of a rank's program; false: it has to wait.
  bool step(int r) {
    switch (at(r).phase) {
      case Phase::Waiting:
      case Phase::Done: return false;
      case Phase::Working: return work(r);
      case Phase::Voting: return vote(r);
      case Phase::Joining: return plan_.program == Program::Shrink ? joinShrunk(r) : joinSplit(r);
    }
    return false;
  }

  bool work(int r) {
    Rank& me = at(r);
    if (boot(r).failure(me.comm.member)) {
      me.shrink.emplace(static_cast<int>(me.comm.ranks.size()), std::vector<int>{}, true);
      me.seen = 0;
      me.voted = false;
      me.phase = Phase::Voting;
      ++nShrinks_;
      return true;
    }
    if (me.comm.gather == 0 || boot(r).gathered(me.comm.member, me.comm.gather) == nullptr) return false;
    me.phase = Phase::Done;
    boot(r).leave(me.comm.member);
    return false;
  }

  /// A decision that this rank has not had.
  const Decision* awaitDecision(int r, const Vote& vote) {
    Rank& me = at(r);
    const Agreement& agreement = boot(r).agreement(me.comm.member);
    if (agreement.excludedBy() >= 0) wrong_ = cat("rank ", r, " is excluded from ", me.comm.name);
    if (agreement.decided().epoch == me.seen) {
      if (!std::exchange(me.voted, true)) boot(r).vote(me.comm.member, vote);
      if (agreement.decided().epoch == me.seen) return nullptr;  // a rank alone decides at once
    }
    me.seen = agreement.decided().epoch;
    me.voted = false;
    const auto& [other, same] = *decisions_.try_emplace({me.comm.name, me.seen}, agreement.decided()).first;
    if (!(same == agreement.decided()))
      wrong_ = cat("rank ", r, " has another decision of epoch ", me.seen, " of ", me.comm.name);
    return &agreement.decided();
  }

  bool vote(int r) {
    Rank& me = at(r);
    if (plan_.program == Program::Split) return voteSplit(r);
    const Decision* decision = awaitDecision(r, me.shrink->vote());
    if (decision == nullptr) return false;
    me.shrink->onDecision(*decision);
    if (me.shrink->next() == Shrink::Next::Vote) wrong_ = "a shrink without other calls votes again";
    if (me.shrink->next() == Shrink::Next::End) return shrunk(r);
    if (me.child) boot(r).leave(me.child->member);
    std::vector<int> ranks;
    for (const int member : me.shrink->members()) ranks.push_back(me.comm.ranks[static_cast<size_t>(member)]);
    me.child = join(r, cat(me.comm.name, " ", me.shrink->label()), ranks);
    me.phase = Phase::Joining;
    return true;
  }

  bool joinShrunk(int r) {
    Rank& me = at(r);
    Status joined;
    const std::vector<int>& members = me.shrink->members();
    const Agreement& agreement = boot(r).agreement(me.comm.member);
    const auto gone = std::find_if(members.begin(), members.end(), [&](int rank) { return agreement.isGone(rank); });
    if (gone != members.end()) joined = remoteError("rank ", *gone, " is gone");
    if (joined.ok() && boot(r).failure(me.child->member)) joined = boot(r).failure(me.child->member)->status;
    if (joined.ok() && !boot(r).up(me.child->member)) return false;
    if (!joined.ok()) {
      boot(r).leave(me.child->member);
      me.child.reset();
    }
    me.shrink->onJoined(joined);
    me.phase = Phase::Voting;
    return true;
  }

  bool shrunk(int r) {
    Rank& me = at(r);
    if (!me.shrink->outcome().ok()) wrong_ = cat("rank ", r, ": ", me.shrink->outcome().message());
    if (!wrong_.empty()) return false;
    boot(r).leave(me.comm.member);
    me.comm = *std::exchange(me.child, std::nullopt);
    me.comm.gather = boot(r).allGather(me.comm.member, cat(r));
    me.phase = Phase::Working;
    return true;
  }

  // ---- Split, as comm/children.cpp does it.

  bool voteSplit(int r) {
    Rank& me = at(r);
    const Decision* decision =
        awaitDecision(r, {.call = {.kind = MembershipCall::Kind::Split, .color = r % 2, .key = -r}});
    if (decision == nullptr) {
      if (boot(r).failure(me.comm.member)) return splitFailed(r, boot(r).failure(me.comm.member)->rank);
      return false;
    }
    if (!unanimous(*decision).ok()) return splitFailed(r, decision->gone.empty() ? -1 : decision->gone.front());
    const std::vector<int> members = splitMembers(*decision, r % 2);
    me.child = join(r, childLabel(cat("split/", r % 2), decision->epoch, members), members);
    me.phase = Phase::Joining;
    return true;
  }

  bool joinSplit(int r) {
    Rank& me = at(r);
    if (boot(r).failure(me.comm.member)) return splitFailed(r, boot(r).failure(me.comm.member)->rank);
    // Where the child has failed, that of the parent follows.
    if (boot(r).failure(me.child->member) || !boot(r).up(me.child->member)) return false;
    if (me.child->rank !=
        static_cast<int>(std::find(me.child->ranks.begin(), me.child->ranks.end(), r) - me.child->ranks.begin()))
      wrong_ = cat("rank ", r, " is at another place in its child");
    me.phase = Phase::Done;  // it keeps both
    return false;
  }

  bool splitFailed(int r, int named) {
    const bool dead = named >= 0 && !at(named).node->alive();
    if (!dead) wrong_ = cat("rank ", r, " says that rank ", named, " has died");
    ++nFailed_;
    if (at(r).child) boot(r).leave(at(r).child->member);
    at(r).phase = Phase::Done;
    return false;
  }

  const Plan plan_;
  SimWorld world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<int> dirty_;
  std::map<std::pair<std::string, uint64_t>, Decision> decisions_;
  std::string wrong_;
  int64_t begunNs_ = 0;
  uint64_t firstMessage_ = 0;
  int nShrinks_ = 0, nFailed_ = 0;
};

std::string describe(const Plan& plan) {
  constexpr const char* kNames[] = {"revoke", "shrink", "split"};
  std::string text = cat(plan.nRanks, " ranks, seed ", plan.seed, ", ", kNames[static_cast<int>(plan.program)]);
  for (const auto& [rank, message] : plan.crashes) text += cat(", rank ", rank, " dies at message ", message);
  if (plan.resetAt >= 0) text += cat(", a reset at message ", plan.resetAt);
  return text;
}

/// Runs; whether each of the crashes came to pass.  No wait may be longer than it takes to find a listener gone.
bool holdsFor(const Plan& plan, int* nShrinks = nullptr, int* nFailed = nullptr) {
  constexpr int64_t kMostNs = 3'000 * kMs;
  Job job(plan);
  const std::string why = job.run();
  if (!why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
  if (job.tookNs() > kMostNs) FAIL_CHECK(describe(plan) << ": it took " << job.tookNs() / kMs << " ms");
  if (nShrinks != nullptr) *nShrinks += job.nShrinks();
  if (nFailed != nullptr) *nFailed += job.nFailed();
  return std::all_of(plan.crashes.begin(), plan.crashes.end(), [&](const auto& c) { return job.crashed(c.first); });
}

void atEveryMessage(Program program, int nRanks, int stride) {
  for (const uint64_t seed : testSeeds(1, test::kThorough ? 2 : 1))
    for (int victim = 0; victim < nRanks; ++victim) {
      int message = 0, nFailed = 0;
      while (holdsFor({.seed = seed, .nRanks = nRanks, .program = program, .crashes = {{victim, message}}}, nullptr,
                      &nFailed))
        message += stride;
      REQUIRE(message > 8);
      if (program == Program::Split) CHECK(nFailed > 0);
    }
}

/// All ranks live: they keep each other, whatever connection is reset.  How many messages there were to do it at.
int withResets(Program program, int nRanks, int stride) {
  for (int message = 0;; message += stride) {
    const Plan plan{.nRanks = nRanks, .program = program, .resetAt = message};
    Job job(plan);
    const std::string why = job.run();
    if (!why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
    for (int r = 0; r < nRanks; ++r)
      if (job.newestRanks(r) != static_cast<size_t>(nRanks))
        FAIL_CHECK(describe(plan) << ": rank " << r << " goes on with " << job.newestRanks(r) << " ranks");
    if (!job.wasReset()) return message;
  }
}

}  // namespace

TEST_CASE("a connection that is reset at any message of a shrink or split costs no rank", "[thorough]") {
  for (int n = 2; n <= (test::kThorough ? 5 : 4); ++n) {
    CHECK(withResets(Program::Shrink, n, test::kThorough ? 1 : n - 1) > 30);
    CHECK(withResets(Program::Split, n, test::kThorough ? 1 : n - 1) > 10);
  }
}

TEST_CASE("whoever dies, and at whatever message of a shrink, the others go on with each other", "[thorough]") {
  for (int n = 2; n <= (test::kThorough ? 5 : 4); ++n) atEveryMessage(Program::Shrink, n, 1);
}

TEST_CASE("whoever dies, and at whatever message of a split, the others have their children or name the dead",
          "[thorough]") {
  for (int n = 2; n <= (test::kThorough ? 6 : 5); ++n) atEveryMessage(Program::Split, n, 1);
}

TEST_CASE("ranks die in a shrink, and more while the others shrink again", "[thorough]") {
  int nShrinks = 0;
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 1'500 : 250);
  for (const uint64_t seed : seeds) {
    SimWorld dice(seed * 7919 + 11);
    Plan plan{.seed = seed, .nRanks = static_cast<int>(dice.randomBetween(2, 8))};
    plan.mostDelayNs = dice.random() % 3 == 0 ? 5 * kMs : kMs;
    const int64_t nCrashes = dice.randomBetween(1, std::min(plan.nRanks - 1, 3));
    for (int r = 0; r < plan.nRanks && static_cast<int64_t>(plan.crashes.size()) < nCrashes; ++r)
      if (dice.random() % 2 == 0) plan.crashes.emplace_back(r, static_cast<int>(dice.randomBetween(0, 250)));
    holdsFor(plan, &nShrinks);
  }
  if (seeds.size() > 100) CHECK(nShrinks > static_cast<int>(seeds.size() * 5));
}

TEST_CASE("splits of more ranks, two of which die", "[thorough]") {
  int nFailed = 0;
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 1'000 : 150);
  for (const uint64_t seed : seeds) {
    SimWorld dice(seed * 104'729 + 7);
    Plan plan{.seed = seed, .nRanks = static_cast<int>(dice.randomBetween(3, 12)), .program = Program::Split};
    plan.mostDelayNs = dice.random() % 3 == 0 ? 5 * kMs : kMs;
    plan.crashes = {
        {0, static_cast<int>(dice.randomBetween(0, 150))},
        {static_cast<int>(dice.randomBetween(1, plan.nRanks - 1)), static_cast<int>(dice.randomBetween(0, 100))}};
    holdsFor(plan, nullptr, &nFailed);
  }
  if (seeds.size() > 100) CHECK(nFailed > static_cast<int>(seeds.size()));
}

TEST_CASE("a revocation that one living rank has heard of reaches all, whatever message its rank dies at",
          "[thorough]") {
  int nAfterDeath = 0;
  for (const uint64_t seed : testSeeds(1, test::kThorough ? 10 : 2))
    for (int n = 2; n <= 12; ++n) {
      int message = 0;
      while (holdsFor(
          {.seed = seed, .nRanks = n, .program = Program::Revoke, .crashes = {{0, message}}, .mostDelayNs = 5 * kMs},
          nullptr, &nAfterDeath))
        ++message;
      REQUIRE(message > (n > 2 ? 1 : 0));
    }
  CHECK(nAfterDeath > 0);  // ranks that had heard of the death first
}

TEST_CASE("so it does where one that has heard of it dies, too", "[thorough]") {
  for (const uint64_t seed : testSeeds(1, test::kThorough ? 500 : 50)) {
    SimWorld dice(seed * 31'337 + 13);
    const int n = static_cast<int>(dice.randomBetween(4, 16));
    holdsFor(
        {.seed = seed,
         .nRanks = n,
         .program = Program::Revoke,
         .crashes = {{0, static_cast<int>(dice.randomBetween(0, 8))},
                     {static_cast<int>(dice.randomBetween(1, n - 1)), static_cast<int>(dice.randomBetween(0, 10))}},
         .mostDelayNs = 5 * kMs});
  }
}
