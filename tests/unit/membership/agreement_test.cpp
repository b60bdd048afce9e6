// Agreement among ranks of which some die, in the seeded world: at every step of the protocol (a message sent or
// received by the one that dies, so also in the middle of a broadcast), twice in a run, with messages that are lost by
// a death, with exclusions that only some ranks know of, and with living ranks that are taken for dead.
// A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "src/base/text.hpp"
#include "src/membership/agreement.hpp"
#include "src/membership/shrink.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/sim/world.hpp"
#include "tests/support/thorough.hpp"

using namespace tutti;

namespace {

constexpr int64_t kLimitNs = 60'000'000'000;

struct Crash {
  int rank;
  int step;  // of its own: messages sent and received
};

struct Plan {
  uint64_t seed = 1;
  int nRanks = 2;
  int nEpochs = 2;                     // that every rank votes in; then it is idle, or leaves
  std::vector<Crash> crashes{};        // at most one a rank
  std::set<int> excluded{};            // by votes of some of the others; they vote themselves
  std::pair<int, int> parted{-1, -1};  // two that take each other for dead, at some moment, and live
  bool calls = false;                  // votes differ
  bool leave = false;
  bool reminds = false;  // now and then the coordinator says whom it waits for
};

class Job {
 public:
  explicit Job(const Plan& plan) : plan_(plan), world_(plan.seed) {
    for (int r = 0; r < plan.nRanks; ++r) ranks_.push_back(std::make_unique<Rank>(r, plan.nRanks, world_.addNode()));
    for (const Crash& crash : plan.crashes) at(crash.rank).crashStep = crash.step;
    for (auto& rank : ranks_) rank->pairs.resize(ranks_.size());
  }

  /// Runs until nothing moves.  Empty, or what is wrong.
  std::string run() {
    for (int r = 0; r < plan_.nRanks; ++r) {
      world_.at(world_.randomBetween(0, 5'000'000), [this, r] { vote(r); });
    }
    for (int r = 0; plan_.reminds && r < plan_.nRanks; ++r) {
      for (int i = 0; i < 4; ++i) world_.at(world_.randomBetween(0, 20'000'000), [this, r] { remind(r); });
    }
    const auto [a, b] = plan_.parted;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (one < 0) continue;
      world_.at(world_.randomBetween(0, 8'000'000), [this, r = one, lost = other] {
        at(r).machine.markGone(lost);
        after(r);
      });
    }
    (void)world_.runUntil([] { return false; }, kLimitNs);
    return diagnose();
  }

  int steps(int r) { return at(r).steps; }
  bool crashed(int r) { return !world_.alive(r); }
  uint64_t epochs() const {
    uint64_t most = 0;
    for (const auto& rank : ranks_) most = std::max(most, rank->machine.decided().epoch);
    return most;
  }
  int nExcluded() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->machine.excludedBy() >= 0; }));
  }
  uint64_t messages() const { return nMessages_; }

 private:
  struct Pair {
    int64_t lastNs = 0;         // messages keep their order
    int64_t lostNs = kNoTimer;  // what arrives later is lost
  };
  struct Rank {
    Rank(int rank, int nRanks, int simNode) : machine(rank, nRanks), node(simNode) {}
    Agreement machine;
    int node;
    int steps = 0, crashStep = -1;
    bool left = false;
    std::vector<Pair> pairs;  // to the others
    std::vector<Decision> decisions;
    std::vector<MembershipCall> calls;  // by epoch
  };
  Rank& at(int r) { return *ranks_[static_cast<size_t>(r)]; }
  bool here(int r) { return world_.alive(r) && !at(r).left; }

  /// One more step of a rank; false: it dies instead.
  bool step(int r) {
    if (at(r).steps++ != at(r).crashStep) return true;
    world_.kill(at(r).node);
    end(r, true);
    return false;
  }

  /// Its links end; where it died, what was on its way may be lost.
  void end(int r, bool died) {
    for (int other = 0; other < plan_.nRanks; ++other) {
      if (other == r) continue;
      Pair& pair = at(r).pairs[static_cast<size_t>(other)];
      if (died && world_.random() % 2 == 0)
        pair.lostNs = world_.randomBetween(world_.nowNs(), std::max(world_.nowNs(), pair.lastNs));
      const int64_t heardNs = std::max(pair.lastNs, world_.nowNs() + world_.someDelayNs());
      world_.at(heardNs, [this, r, other] {
        if (!here(other)) return;
        at(other).machine.markGone(r);
        after(other);
      });
    }
  }

  void vote(int r) {
    Rank& me = at(r);
    if (!here(r) || me.machine.excludedBy() >= 0 || !step(r)) return;
    Vote vote;
    if (!plan_.excluded.contains(r)) {
      for (const int victim : plan_.excluded)
        if (world_.random() % 3 == 0) vote.excluded.push_back(victim);
    }
    vote.call.kind = MembershipCall::Kind::Split;
    if (plan_.calls) vote.call.key = static_cast<int>(world_.random() % 1000);
    if (plan_.calls) vote.call.text = cat("rank ", r, " in epoch ", me.machine.decided().epoch + 1);
    me.calls.resize(me.machine.decided().epoch + 2);
    me.calls[me.machine.decided().epoch + 1] = vote.call;
    me.machine.vote(vote);
    after(r);
  }

  void remind(int r) {
    if (!here(r) || at(r).machine.excludedBy() >= 0 || !at(r).machine.leads()) return;
    at(r).machine.remind();
    after(r);
  }

  void after(int r) {
    Rank& me = at(r);
    for (const Agreement::Outgoing& out : me.machine.take())
      for (const int to : out.to) {
        if (!step(r)) return;
        send(r, to, out.message);
      }
    if (me.machine.excludedBy() >= 0) return leave(r);
    if (me.machine.decided().epoch == (me.decisions.empty() ? 0 : me.decisions.back().epoch)) return;
    me.decisions.push_back(me.machine.decided());
    if (static_cast<int>(me.decisions.size()) < plan_.nEpochs) {
      world_.at(world_.nowNs() + world_.someDelayNs(), [this, r] { vote(r); });
    } else if (plan_.leave) {
      leave(r);
    }
  }

  void leave(int r) {
    if (std::exchange(at(r).left, true)) return;
    end(r, false);
  }

  void send(int from, int to, AgreementMessage message) {
    if (std::minmax(from, to) == std::minmax(plan_.parted.first, plan_.parted.second) && at(from).machine.isGone(to))
      return;  // the link between the two is gone
    ++nMessages_;
    Pair& pair = at(from).pairs[static_cast<size_t>(to)];
    pair.lastNs = std::max(pair.lastNs, world_.nowNs() + world_.someDelayNs());
    world_.at(pair.lastNs, [this, from, to, message = std::move(message)] {
      if (!here(to) || world_.nowNs() >= at(from).pairs[static_cast<size_t>(to)].lostNs || !step(to)) return;
      if (!at(to).machine.accept(from, message)) nonsense_ = cat("rank ", to, " makes no sense of rank ", from);
      after(to);
    });
  }

  std::string diagnose() {
    if (!nonsense_.empty()) return nonsense_;
    std::map<uint64_t, std::pair<int, Decision>> first;
    for (int r = 0; r < plan_.nRanks; ++r) {
      uint64_t epoch = 0;
      for (const Decision& d : at(r).decisions) {
        if (d.epoch != ++epoch) return cat("rank ", r, " got epoch ", d.epoch, " and not ", epoch);
        if (std::binary_search(d.gone.begin(), d.gone.end(), r)) return cat("rank ", r, " got what leaves it out");
        const auto& [other, same] = first.try_emplace(epoch, r, d).first->second;
        if (!(same == d) && !lastOfAll(r, other)) return cat("ranks ", other, " and ", r, " differ in epoch ", epoch);
      }
    }
    for (const auto& [epoch, decision] : first) {
      if (const std::string why = diagnoseDecision(decision.second); !why.empty())
        return cat("epoch ", epoch, ": ", why);
    }
    for (int r = 0; r < plan_.nRanks; ++r) {
      const bool told = at(r).machine.excludedBy() >= 0;
      if (told && !mayBeGone(r)) return cat("rank ", r, " was told that it is gone");
      if (!world_.alive(r) || told) continue;
      if (static_cast<int>(at(r).decisions.size()) < plan_.nEpochs) {
        return cat("rank ", r, " waits for epoch ", at(r).decisions.size() + 1);
      }
    }
    return {};
  }

  bool mayBeGone(int r) {
    return !world_.alive(r) || at(r).left || plan_.excluded.contains(r) || r == plan_.parted.first ||
           r == plan_.parted.second;
  }

  /// Of two that differ one was excluded by the other, and when that ended there was nobody left to say so.
  bool lastOfAll(int r, int other) {
    for (const auto& [excluded, last] : {std::pair(r, other), std::pair(other, r)})
      if (plan_.excluded.contains(excluded) && !here(last)) return true;
    return false;
  }

  std::string diagnoseDecision(const Decision& d) {
    for (const int r : d.gone)
      if (!mayBeGone(r)) return cat("rank ", r, " is left out");
    std::vector<MembershipCall> calls(at(0).pairs.size());
    for (const int r : membersAfter(d, plan_.nRanks)) {
      if (at(r).calls.size() <= d.epoch) return cat("rank ", r, " goes on and has not voted");
      calls[static_cast<size_t>(r)] = at(r).calls[d.epoch];
    }
    return calls == d.calls ? "" : "other calls than those of the votes";
  }

  const Plan plan_;
  SimWorld world_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::string nonsense_;
  uint64_t nMessages_ = 0;
};

std::string describe(const Plan& plan) {
  std::string text = cat(plan.nRanks, " ranks, seed ", plan.seed);
  for (const Crash& c : plan.crashes) text += cat(", rank ", c.rank, " dies at its step ", c.step);
  for (const int r : plan.excluded) text += cat(", some exclude rank ", r);
  if (plan.parted.first >= 0) text += cat(", ranks ", plan.parted.first, " and ", plan.parted.second, " are parted");
  return text;
}

/// Runs; whether each of the crashes came to pass.
bool holdsFor(const Plan& plan) {
  Job job(plan);
  const std::string why = job.run();
  if (!why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
  return std::all_of(plan.crashes.begin(), plan.crashes.end(), [&](const Crash& c) { return job.crashed(c.rank); });
}

}  // namespace

TEST_CASE("without faults all agree that all go on, in five messages a rank and epoch") {
  for (int n = 1; n <= 9; ++n) {
    Job job({.seed = static_cast<uint64_t>(n), .nRanks = n, .nEpochs = 3});
    CHECK(job.run() == "");
    CHECK(job.epochs() == 3);
    CHECK(job.nExcluded() == 0);
    CHECK(job.messages() <= static_cast<uint64_t>(n - 1) * (5 * 3 + 2));
  }
}

TEST_CASE("whoever dies, and at whatever step, the others agree", "[thorough]") {
  for (int n = 2; n <= 5; ++n)
    for (const uint64_t seed : testSeeds(1, test::kThorough ? 12 : 2))
      for (int victim = 0; victim < n; ++victim) {
        int step = 0;
        while (holdsFor({.seed = seed, .nRanks = n, .crashes = {{victim, step}}, .calls = true})) ++step;
        REQUIRE(step > 8);
      }
}

TEST_CASE("two may die, the second at whatever step after, also the one that took over", "[thorough]") {
  for (int n = 3; n <= (test::kThorough ? 4 : 3); ++n)
    for (const uint64_t seed : testSeeds(1, 2))
      for (int first = 0; first < n; ++first)
        for (int second = 0; second < n; ++second) {
          if (second == first) continue;
          bool firstDies = true;
          for (int step = 0; firstDies; ++step) {
            firstDies = false;
            int other = 0;
            while (holdsFor({.seed = seed, .nRanks = n, .crashes = {{first, step}, {second, other}}})) ++other;
            firstDies = other > 0;
          }
        }
}

TEST_CASE("any number dies, ranks are excluded by some, and some leave with the last decision", "[thorough]") {
  uint64_t nEpochs = 0;
  int nExcluded = 0, nCrashed = 0;
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 20'000 : 500);
  for (const uint64_t seed : seeds) {
    SimWorld dice(seed * 7919 + 5);
    Plan plan{.seed = seed, .nRanks = static_cast<int>(dice.randomBetween(2, 9))};
    plan.nEpochs = static_cast<int>(dice.randomBetween(1, 4));
    plan.calls = dice.random() % 2 == 0;
    plan.leave = dice.random() % 2 == 0;
    plan.reminds = dice.random() % 2 == 0;
    for (int r = 0; r < plan.nRanks; ++r) {
      if (dice.random() % 3 == 0) plan.crashes.push_back({r, static_cast<int>(dice.randomBetween(0, 40))});
      if (dice.random() % 5 == 0 && static_cast<int>(plan.excluded.size()) < plan.nRanks - 1) plan.excluded.insert(r);
    }
    Job job(plan);
    const std::string why = job.run();
    if (!why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
    nEpochs += job.epochs();
    nExcluded += job.nExcluded();
    for (int r = 0; r < plan.nRanks; ++r) nCrashed += job.crashed(r);
  }
  if (seeds.size() < 100) return;
  CHECK(nEpochs > seeds.size());
  CHECK(nExcluded > static_cast<int>(seeds.size() / 20));
  CHECK(nCrashed > static_cast<int>(seeds.size() / 2));
}

TEST_CASE("of two living ranks that take each other for dead, one at least hears that it is out", "[thorough]") {
  int nTold = 0;
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 5'000 : 300);
  for (const uint64_t seed : seeds) {
    SimWorld dice(seed * 104'729 + 3);
    Plan plan{.seed = seed, .nRanks = static_cast<int>(dice.randomBetween(3, 9)), .nEpochs = 6};
    const int a = static_cast<int>(dice.randomBetween(0, plan.nRanks - 2));
    plan.parted = {a, static_cast<int>(dice.randomBetween(a + 1, plan.nRanks - 1))};
    Job job(plan);
    const std::string why = job.run();
    if (!why.empty()) FAIL_CHECK(describe(plan) << ": " << why);
    nTold += job.nExcluded() > 0;
  }
  if (seeds.size() >= 100) CHECK(nTold > static_cast<int>(seeds.size() / 3));
}

TEST_CASE("every rank that waits knows of whom, once the coordinator has said so") {
  constexpr int kRanks = 5;
  std::vector<Agreement> machines;
  for (int rank = 0; rank < kRanks; ++rank) machines.emplace_back(rank, kRanks);
  const auto carry = [&] {
    for (bool any = true; std::exchange(any, false);)
      for (int from = 0; from < kRanks; ++from)
        for (const Agreement::Outgoing& out : machines[static_cast<size_t>(from)].take())
          for (const int to : out.to) {
            any = true;
            REQUIRE(machines[static_cast<size_t>(to)].accept(from, out.message));
          }
  };
  const auto vote = [&](int rank) {
    machines[static_cast<size_t>(rank)].vote({});
    carry();
  };
  using Ranks = std::vector<int>;
  const auto waitFor = [&](std::initializer_list<int> those, const Ranks& whom) {
    REQUIRE(machines[0].leads());
    machines[0].remind();
    carry();
    for (const int rank : those) CHECK(machines[static_cast<size_t>(rank)].waitingOn() == whom);
  };
  CHECK_FALSE(machines[0].leads());
  CHECK(machines[3].waitingOn() == Ranks{0});  // nothing is known
  vote(3);
  waitFor({3}, {0, 1, 2, 4});
  vote(1);
  waitFor({1, 3}, {0, 2, 4});
  vote(0);
  waitFor({0, 1, 3}, {2, 4});
  machines[0].markGone(4);
  carry();
  waitFor({0, 1, 3}, {2});
  vote(2);
  for (int rank = 0; rank < 4; ++rank) CHECK(machines[static_cast<size_t>(rank)].decided().epoch == 1);
  CHECK_FALSE(machines[0].leads());  // nobody waits
}

TEST_CASE("two that exclude each other tell each other nothing for ever") {
  Agreement machines[] = {{0, 2}, {1, 2}};
  machines[0].vote({.excluded = {1}});
  machines[1].vote({.excluded = {0}});
  int nMessages = 0;
  for (bool moved = true; moved && nMessages < 100;) {
    moved = false;
    for (const int from : {0, 1})
      for (const Agreement::Outgoing& out : machines[from].take()) {
        CHECK(machines[out.to.front()].accept(from, out.message));
        moved = true;
        ++nMessages;
      }
  }
  CHECK(nMessages < 5);
}

TEST_CASE("who votes again before the votes are counted has changed its vote") {
  Agreement machines[] = {{0, 2}, {1, 2}};
  const MembershipCall first{.kind = MembershipCall::Kind::Shrink, .text = "not yet"}, then{.text = "now"};
  machines[1].vote({.call = first});
  machines[1].vote({.call = then});
  for (const Agreement::Outgoing& out : machines[1].take()) CHECK(machines[0].accept(1, out.message));
  machines[0].vote({});
  for (int round = 0; round < 4; ++round)
    for (const int from : {1, 0})
      for (const Agreement::Outgoing& out : machines[from].take())
        CHECK(machines[out.to.front()].accept(from, out.message));
  const Decision decision{.epoch = 1, .calls = {{}, then}};
  CHECK(machines[0].decided() == decision);
  CHECK(machines[1].decided() == decision);
}

TEST_CASE("the calls of all travel once to every rank, and once more to those that a new coordinator asks") {
  constexpr int kRanks = 6;
  std::vector<Agreement> machines;
  for (int r = 0; r < kRanks; ++r) machines.emplace_back(r, kRanks);
  size_t nCalls = 0;
  int first = 0;  // ranks below are dead
  const auto settle = [&] {
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = first; from < kRanks; ++from)
        for (const Agreement::Outgoing& out : machines[static_cast<size_t>(from)].take())
          for (const int to : out.to) {
            moved = true;
            nCalls += out.message.decided.calls.size() + out.message.proposed.calls.size();
            if (to >= first) CHECK(machines[static_cast<size_t>(to)].accept(from, out.message));
          }
    }
  };
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    nCalls = 0;
    for (int r = first; r < kRanks; ++r) machines[static_cast<size_t>(r)].vote({.call = {.key = r}});
    settle();
    for (int r = first; r < kRanks; ++r) CHECK(machines[static_cast<size_t>(r)].decided().epoch == epoch);
    const int times = epoch == 2 ? 2 : 1;
    CHECK(nCalls == static_cast<size_t>(times * kRanks * (kRanks - first - 1)));
    if (epoch != 1) continue;
    for (int r = 1; r < kRanks; ++r) machines[static_cast<size_t>(r)].markGone(0);
    first = 1;
  }
}

TEST_CASE("messages that make no sense are refused") {
  Agreement machine(1, 3);
  CHECK_FALSE(machine.accept(1, {}));
  CHECK_FALSE(machine.accept(3, {}));
  CHECK_FALSE(machine.accept(0, {.gone = {2, 0}}));
  CHECK_FALSE(machine.accept(0, {.gone = {3}}));
  CHECK_FALSE(machine.accept(0, {.decided = {.epoch = 1, .gone = {-1}}}));
  CHECK_FALSE(machine.accept(0, {.proposed = {.epoch = 1, .calls = {{}}}}));
  CHECK_FALSE(machine.accept(0, {.order = true, .decided = {.epoch = 1}}));
  CHECK_FALSE(machine.accept(0, {.order = true, .proposed = {.epoch = 1}}));
  CHECK_FALSE(machine.accept(0, {.decided = {.epoch = UINT64_MAX}}));
  CHECK(machine.take().empty());
  CHECK(machine.accept(0, {.order = true}));
  CHECK(machine.take().size() == 1);
}

TEST_CASE("children have names of their own by epoch and members") {
  const Decision decision{.epoch = 3, .gone = {1, 2}};
  CHECK(membersAfter(decision, 5) == std::vector<int>{0, 3, 4});
  CHECK(childLabel("shrink", 3, {0, 3, 4}) == "shrink/3/0/3/4");
  CHECK(childLabel("shrink", 3, {0, 34}) != childLabel("shrink", 3, {0, 3, 4}));
}

namespace {

MembershipCall splitBy(int color, int key) { return {.kind = MembershipCall::Kind::Split, .color = color, .key = key}; }
const MembershipCall kShrinks{.kind = MembershipCall::Kind::Shrink, .anew = true};

}  // namespace

TEST_CASE("ranks of a color are in its child by their keys, then by their ranks") {
  const Decision decision{.epoch = 1,
                          .calls = {splitBy(1, 5), splitBy(2, 0), splitBy(1, -7), splitBy(-1, 0), splitBy(1, 5)}};
  CHECK(unanimous(decision).ok());
  CHECK(splitMembers(decision, 1) == std::vector<int>{2, 0, 4});
  CHECK(splitMembers(decision, 2) == std::vector<int>{1});
}

TEST_CASE("ranks that have made different calls hear which, and those of a communicator with dead ranks which are") {
  const MembershipCall grows{.kind = MembershipCall::Kind::Grow, .nRanks = 4},
      more{.kind = MembershipCall::Kind::Grow, .nRanks = 5};
  const auto said = [](const Decision& decision) { return unanimous(decision).message(); };
  CHECK(said({.epoch = 1, .calls = {splitBy(0, 0), splitBy(1, 0), kShrinks}})
            .starts_with("rank 0 called tuttiCommSplit but rank 2 called tuttiCommShrink"));
  CHECK(said({.epoch = 1, .calls = {grows, more}})
            .starts_with("rank 0 called tuttiCommGrow to 4 ranks but rank 1 called tuttiCommGrow to 5 ranks"));
  CHECK(
      said({.epoch = 1, .gone = {1}, .calls = {grows, {}, grows}}).starts_with("rank 1 of this communicator has died"));
  CHECK(unanimous({.epoch = 1, .gone = {1}, .calls = {grows, {}, grows}}).code() == tuttiRemoteError);
  CHECK(unanimous({.epoch = 1, .calls = {grows, more}}).code() == tuttiInvalidUsage);
}

TEST_CASE("just one rank has the id of those that join") {
  const MembershipCall none{.kind = MembershipCall::Kind::Grow, .nRanks = 4};
  MembershipCall root = none;
  root.text = "id";
  CHECK(growRoot({.epoch = 1, .calls = {none, root}}).value() == 1);
  CHECK(growRoot({.epoch = 1, .calls = {none, none}}).status().message().starts_with("no rank"));
  CHECK(growRoot({.epoch = 1, .calls = {root, none, root}}).status().message().find("0 and 2") != std::string::npos);
}

TEST_CASE("a shrink tries until all that are left have the same, and ends where one has made another call") {
  MembershipCall content = kShrinks, objects = kShrinks;
  content.anew = objects.anew = false;
  objects.text = "no memory";
  Shrink shrink(3, {2}, false);
  CHECK(shrink.vote().excluded == std::vector<int>{2});
  shrink.onDecision({.epoch = 1, .gone = {2}, .calls = {kShrinks, kShrinks, {}}});
  REQUIRE(shrink.next() == Shrink::Next::Join);
  CHECK(shrink.members() == std::vector<int>{0, 1});
  CHECK(shrink.label() == "shrink/1/0/1");
  shrink.onJoined({});
  CHECK(shrink.vote().call == content);

  SECTION("all have it") {
    shrink.onDecision({.epoch = 2, .gone = {2}, .calls = {content, content, {}}});
    CHECK(shrink.next() == Shrink::Next::End);
    CHECK(shrink.outcome().ok());
  }
  SECTION("one has it not, twice") {
    shrink.onDecision({.epoch = 2, .gone = {2}, .calls = {content, objects, {}}});
    CHECK(shrink.label() == "shrink/2/0/1");
    shrink.onJoined({});
    shrink.onDecision({.epoch = 3, .gone = {2}, .calls = {content, objects, {}}});
    CHECK(shrink.next() == Shrink::Next::End);
    CHECK(shrink.outcome().message().find("rank 1 (of the parent) could not join: no memory") != std::string::npos);
  }
  SECTION("one has died meanwhile") {
    shrink.onDecision({.epoch = 2, .gone = {1, 2}, .calls = {content, {}, {}}});
    CHECK(shrink.next() == Shrink::Next::Join);
    CHECK(shrink.label() == "shrink/2/0");
  }
  SECTION("one begins anew") {
    shrink.onDecision({.epoch = 2, .gone = {2}, .calls = {content, kShrinks, {}}});
    CHECK(shrink.next() == Shrink::Next::Join);
    CHECK(shrink.label() == "shrink/2/0/1");
  }
  SECTION("one splits") {
    shrink.onDecision({.epoch = 2, .gone = {2}, .calls = {content, splitBy(0, 0), {}}});
    CHECK(shrink.next() == Shrink::Next::End);
    CHECK(shrink.outcome().code() == tuttiInvalidUsage);
  }
}

TEST_CASE("a shrink after a failure goes on although a call that the failure has ended was counted") {
  Shrink shrink(2, {}, true);
  shrink.onDecision({.epoch = 1, .calls = {kShrinks, splitBy(0, 0)}});
  CHECK(shrink.next() == Shrink::Next::Vote);
  CHECK(shrink.vote().call.anew);
}
