// Ranks meet, link and gather in the simulated world, and nothing goes wrong.
#include <catch2/catch.hpp>
#include <cmath>

#include "src/control/handshake.hpp"
#include "src/control/join_watch.hpp"
#include "src/control/meeting.hpp"
#include "src/control/overdue.hpp"
#include "src/control/overlay.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/control/sim_job.hpp"

using namespace tutti;

namespace {

std::string joinAndGather(int nRanks, uint64_t seed, JobOptions options = {}) {
  SimWorld world(seed);
  options.nRanks = nRanks;
  SimJob job(world, options);
  std::string complaint = job.run(60 * kSecond);
  for (int r = 0; r < nRanks && complaint.empty(); ++r)
    if (job.rank(r).failure) complaint = cat("rank ", r, " failed: ", job.rank(r).failure->status.message());
  world.runUntil([] { return false; }, world.nowNs() + kSecond);
  if (complaint.empty() && nRanks > 1 && !job.place().rendezvousDone(job.request(0).commId))
    complaint = "the rendezvous has not ended";
  for (int node = 0; node < world.nNodes() && complaint.empty(); ++node)
    if (!world.links(node).empty()) complaint = cat("node ", node, " has links left");
  return complaint;
}

}  // namespace

TEST_CASE("any number of ranks join and gather") {
  for (int nRanks = 1; nRanks <= 40; ++nRanks) {
    CAPTURE(nRanks);
    CHECK(joinAndGather(nRanks, static_cast<uint64_t>(nRanks), {.startSpreadNs = 5 * kMs}) == "");
  }
  CHECK(joinAndGather(64, 64, {.nGathers = 8, .window = 4}) == "");
  CHECK(joinAndGather(256, 256, {.nGathers = 2}) == "");
}

TEST_CASE("1,024 ranks join", "[thorough]") {
  CHECK(joinAndGather(test::kThorough ? 1024 : 200, 1, {.nGathers = 1, .joinNs = 30 * kSecond}) == "");
}

TEST_CASE("gathers overlap and large ones are cut into pieces") {
  CHECK(joinAndGather(7, 3, {.nGathers = 20, .window = 20}) == "");
  SimWorld world(5);
  SimJob job(world, {.nRanks = 6, .nGathers = 2, .window = 2, .blobBytes = 700'000});
  CHECK(job.run(60 * kSecond) == "");
  CHECK(world.largestMessageBytes() < 2'000'000);
}

TEST_CASE("joining takes O(log n) rounds and O(log n) links a rank") {
  for (int nRanks : {2, 3, 5, 8, 16, 33, 64, 100, 256}) {
    CAPTURE(nRanks);
    SimWorld world(1);
    world.setDelay(kMs, kMs);  // a message is a round
    SimJob job(world, {.nRanks = nRanks, .nGathers = 0, .idleNs = kSecond / 2});
    REQUIRE(job.run(60 * kSecond) == "");
    int64_t lastUpNs = 0;
    for (int r = 0; r < nRanks; ++r) lastUpNs = std::max(lastUpNs, job.rank(r).upNs);
    const int rounds = overlayRounds(nRanks);
    // Rendezvous: connect 2, prove 4, register and answer 2; overlay: connect 2, prove 3-4; then the gather.
    CHECK(lastUpNs / kMs <= rounds + 15);
    CHECK(world.nDials() <= static_cast<uint64_t>(nRanks) * static_cast<uint64_t>(rounds + 1));
  }
}

TEST_CASE("every pair of neighbours has one dialer") {
  for (int nRanks = 1; nRanks <= 130; ++nRanks) {
    CAPTURE(nRanks);
    size_t dials = 0, links = 0;
    bool symmetric = true, bounded = true;
    for (int r = 0; r < nRanks; ++r) {
      const auto mine = overlayLinks(r, nRanks);
      bounded = bounded && mine.size() <= static_cast<size_t>(2 * overlayRounds(nRanks));
      for (const OverlayLink& link : mine) {
        ++links;
        dials += link.weDial;
        const auto theirs = overlayLinks(link.peer, nRanks);
        const OverlayLink back{r, !link.weDial};
        symmetric = symmetric && std::find(theirs.begin(), theirs.end(), back) != theirs.end();
      }
    }
    CHECK(symmetric);
    CHECK(bounded);
    CHECK(2 * dials == links);
  }
}

TEST_CASE("a meeting place that is gone is known soon after nobody listens there") {
  for (const uint64_t seed : testSeeds(1, 40)) {
    CAPTURE(seed);
    SimWorld world(seed);
    const int place = world.addNode();
    BootstrapNode bootstrap(world.network(place), [] {});
    world.attach(place, &bootstrap);
    bootstrap.serveRendezvous({9}, {8}, "place");
    const int node = world.addNode();
    BootstrapNode rank(world.network(node), [] {});
    world.attach(node, &rank);
    JoinRequest request{.commId = {9}, .secret = {8}, .rank = 0, .nRanks = 4};
    request.self = SimWorld::controlAddress(node);
    request.rendezvous = SimWorld::controlAddress(place);
    request.deadlineNs = 30 * kSecond;
    const MemberId member = rank.join(request);
    const int64_t diesNs = world.randomBetween(10 * kMs, 500 * kMs);
    world.at(diesNs, [&] { world.kill(place); });
    REQUIRE(world.runUntil([&] { return rank.failure(member).has_value(); }, 60 * kSecond));
    CHECK(rank.failure(member)->status.message().find(" is gone (") != std::string::npos);
    CHECK(world.nowNs() - diesNs < 110 * kMs);  // 100, and the ways of four messages
  }
}

TEST_CASE("a rank that others are to dial does not wait for them for long where the meeting place has gone") {
  for (int round = 0; round < 40; ++round) {
    const bool dials = round % 2 == 1;
    CAPTURE(round, dials);
    SimWorld world(4 + static_cast<uint64_t>(round));
    std::vector<std::unique_ptr<BootstrapNode>> nodes;
    for (int node = 0; node < 3; ++node) {
      nodes.push_back(std::make_unique<BootstrapNode>(world.network(world.addNode()), [] {}));
      world.attach(node, nodes.back().get());
    }
    JoinRequest request{.commId = {9}, .secret = {8}, .nRanks = 2};
    setOpenBeforeKnown(&request.commId, true);
    request.rendezvous = SimWorld::controlAddress(2);
    request.deadlineNs = 30 * kSecond;
    nodes[2]->serveRendezvous(request.commId, {8}, "place");
    MemberId members[2] = {};
    const auto join = [&](int r) {
      JoinRequest mine = request;
      mine.rank = r;
      mine.self = SimWorld::controlAddress(r);
      members[r] = nodes[static_cast<size_t>(r)]->join(mine);
    };
    world.at(0, [&] { join(1); });
    if (dials) world.at(100 * kMs, [&] { join(0); });
    world.at(dials ? 200 * kMs : 100 * kMs, [&] { world.kill(2); });
    const auto over = [&] { return nodes[1]->up(members[1]) || nodes[1]->failure(members[1]); };
    REQUIRE(world.runUntil([&] { return members[1] != 0 && over(); }, 60 * kSecond));
    CHECK(nodes[1]->up(members[1]) == dials);
    if (!dials) CHECK(nodes[1]->failure(members[1])->status.message().find(" is gone (") != std::string::npos);
    CHECK(world.nowNs() < (dials ? 600 : 400) * kMs);
  }
}

TEST_CASE("a meeting place that is gone before a rank has reached it ends that rank's wait, whoever is to dial whom") {
  for (const auto& [rank, nRanks] : {std::pair{0, 2}, {1, 2}, {2, 3}, {3, 4}, {6, 7}}) {
    CAPTURE(rank, nRanks);
    SimWorld world(3);
    const int place = world.addNode();
    const int node = world.addNode();
    BootstrapNode late(world.network(node), [] {});
    world.attach(node, &late);
    world.kill(place);
    JoinRequest request{.commId = {9}, .secret = {8}, .rank = rank, .nRanks = nRanks};
    setOpenBeforeKnown(&request.commId, true);  // as of a unique id
    request.self = SimWorld::controlAddress(node);
    request.rendezvous = SimWorld::controlAddress(place);
    request.deadlineNs = 30 * kSecond;
    const MemberId member = late.join(request);
    REQUIRE(world.runUntil([&] { return late.failure(member).has_value(); }, 60 * kSecond));
    CHECK(late.failure(member)->status.message().find(" is gone (") != std::string::npos);
    CHECK(world.nowNs() < 110 * kMs);
  }
}

TEST_CASE("mistakes at the rendezvous are told to everyone by rank") {
  const auto meet = [](const std::vector<std::pair<int, int>>& rankAndSize, int64_t deadlineNs) {
    SimWorld world(7);
    const int place = world.addNode();
    BootstrapNode bootstrap(world.network(place), [] {});
    world.attach(place, &bootstrap);
    bootstrap.serveRendezvous({9}, {8}, "place");
    std::vector<std::unique_ptr<BootstrapNode>> bootstraps;
    std::vector<MemberId> members;
    for (const auto& [rank, size] : rankAndSize) {
      const int node = world.addNode();
      bootstraps.push_back(std::make_unique<BootstrapNode>(world.network(node), [] {}));
      world.attach(node, bootstraps.back().get());
      JoinRequest request{.commId = {9}, .secret = {8}, .rank = rank, .nRanks = size};
      request.self = SimWorld::controlAddress(node);
      request.rendezvous = SimWorld::controlAddress(place);
      request.deadlineNs = deadlineNs;
      members.push_back(bootstraps.back()->join(request));
    }
    const auto failed = [&](size_t i) { return bootstraps[i]->failure(members[i]).has_value(); };
    world.runUntil(
        [&] {
          for (size_t i = 0; i < bootstraps.size(); ++i)
            if (!failed(i)) return false;
          return true;
        },
        deadlineNs + kSecond);
    std::vector<std::string> texts;
    for (size_t i = 0; i < bootstraps.size(); ++i)
      texts.push_back(failed(i) ? bootstraps[i]->failure(members[i])->status.message() : "no failure");
    return texts;
  };
  for (const std::string& text : meet({{0, 4}, {1, 4}, {2, 5}}, kSecond)) {
    CHECK(text.find("4") != std::string::npos);
    CHECK(text.find("5") != std::string::npos);
    CHECK(text.find("same nRanks") != std::string::npos);
  }
  for (const std::string& text : meet({{0, 3}, {1, 3}, {1, 3}}, kSecond))
    CHECK(text.find("two joined as rank 1: one at sim:") == 0);
  for (const std::string& text : meet({{0, 9}, {4, 9}, {8, 9}}, 5 * kSecond))
    CHECK(text.find("ranks 1, 2, 3, 5, 6 and 7 have not come to the rendezvous in time (3 of 9") == 0);
  for (const std::string& text : meet({{0, 3}, {2, 3}}, kSecond))
    CHECK(text.find("rank 1 has not come to the rendezvous in time (2 of 3 ranks are here)") == 0);
}

TEST_CASE("what has not come is warned of after five seconds, and when it has taken twice as long") {
  Overdue overdue;
  CHECK(overdue.nextNs() == kNoTimer);
  CHECK(overdue.dueSeconds(1'000 * kSecond) == 0);
  constexpr int64_t kBegan = 100 * kSecond;
  overdue.begin(kBegan);
  std::vector<int64_t> said;
  for (int64_t now = kBegan; now <= kBegan + 100 * kSecond; now += kSecond / 4)
    if (const int64_t seconds = overdue.dueSeconds(now); seconds > 0) said.push_back(seconds);
  CHECK(said == std::vector<int64_t>{5, 10, 20, 40, 80});
}

namespace {

/// A rendezvous and ranks that come to it, or not, each on a node of its own.
class Comers {
 public:
  explicit Comers(uint64_t seed) : world_(seed), place_(world_.addNode()), bootstrap_(world_.network(place_), [] {}) {
    world_.attach(place_, &bootstrap_);
    bootstrap_.serveRendezvous(kCommId, kSecret, "place");
  }

  JoinRequest request(int rank, int nRanks, int node) const {
    JoinRequest request{.commId = kCommId, .secret = kSecret, .rank = rank, .nRanks = nRanks};
    request.self = SimWorld::controlAddress(node);
    request.rendezvous = SimWorld::controlAddress(place_);
    request.deadlineNs = kJoinNs;
    return request;
  }
  BootstrapNode& comer() {
    const int node = world_.addNode();
    bootstraps.push_back(std::make_unique<BootstrapNode>(world_.network(node), [] {}));
    world_.attach(node, bootstraps.back().get());
    return *bootstraps.back();
  }
  int placeNode() const { return place_; }
  int lastNode() const { return world_.nNodes() - 1; }
  SimWorld& world() { return world_; }
  BootstrapNode& place() { return bootstrap_; }

  static constexpr CommId kCommId = {9};
  static inline const Secret kSecret = {8};
  static constexpr int64_t kJoinNs = 30 * kSecond;

 private:
  SimWorld world_;
  const int place_;
  BootstrapNode bootstrap_;
  std::vector<std::unique_ptr<BootstrapNode>> bootstraps;
};

}  // namespace

TEST_CASE("a rank that does not come tells the others why, whether they are there or come later") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Comers comers(seed);
    BootstrapNode& early = comers.comer();
    const MemberId first = early.join(comers.request(0, 3, comers.lastNode()));
    BootstrapNode& silent = comers.comer();
    MemberId notice = 0;
    comers.world().at(kSecond, [&] {
      const Status why = remoteError("rank 1 cannot join: its configuration is wrong");
      notice = silent.tell(comers.request(1, 3, comers.lastNode()), {1, why});
    });
    BootstrapNode* late = nullptr;
    MemberId last = 0;
    comers.world().at(3 * kSecond, [&] {
      late = &comers.comer();
      last = late->join(comers.request(2, 3, comers.lastNode()));
    });
    const auto heard = [&](BootstrapNode* bootstrap, MemberId member) {
      const bool failed = bootstrap != nullptr && bootstrap->failure(member).has_value();
      return failed && bootstrap->failure(member)->status.message() == "rank 1 cannot join: its configuration is wrong";
    };
    CHECK(comers.world().runUntil([&] { return notice != 0 && silent.told(notice) && heard(&early, first); },
                                  2 * kSecond));
    silent.forgetNotice(notice);
    early.leave(first);
    CHECK_FALSE(comers.place().rendezvousDone(Comers::kCommId));
    CHECK(comers.world().runUntil([&] { return heard(late, last); }, 5 * kSecond));
    late->leave(last);
    // All have heard: nobody is waited for any more.
    CHECK(comers.world().runUntil([&] { return comers.place().rendezvousDone(Comers::kCommId); }, 6 * kSecond));
  }
}

TEST_CASE("a rank that comes when the others have given up hears how late it is") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Comers comers(seed);
    BootstrapNode& early = comers.comer();
    const MemberId first = early.join(comers.request(0, 3, comers.lastNode()));
    BootstrapNode& second = comers.comer();
    const MemberId other = second.join(comers.request(2, 3, comers.lastNode()));
    const auto failed = [&] { return early.failure(first).has_value() && second.failure(other).has_value(); };
    REQUIRE(comers.world().runUntil(failed, Comers::kJoinNs));
    CHECK(early.failure(first)->status.message() == second.failure(other)->status.message());
    CHECK(early.failure(first)->status.message().find(" has waited 27 s: raise TUTTI_TIMEOUT_MS") != std::string::npos);
    const int64_t gaveUpNs = comers.world().nowNs();
    BootstrapNode* late = nullptr;
    MemberId last = 0;
    comers.world().at(gaveUpNs + 4 * kSecond, [&] {
      JoinRequest request = comers.request(1, 3, -1);
      late = &comers.comer();
      request.self = SimWorld::controlAddress(comers.lastNode());
      request.deadlineNs = gaveUpNs + 34 * kSecond;
      last = late->join(request);
    });
    early.leave(first);
    second.leave(other);
    REQUIRE(comers.world().runUntil([&] { return late != nullptr && late->failure(last).has_value(); },
                                    gaveUpNs + 6 * kSecond));
    const Status& why = late->failure(last)->status;
    CHECK(why.code() == tuttiTimeout);
    CHECK(why.message().find("rank 1 came to the rendezvous at place 4.") == 0);
    CHECK(why.message().find(" s too late: the other ranks had waited 27 s and given up; start") != std::string::npos);
    late->leave(last);
    CHECK(comers.world().runUntil([&] { return comers.place().rendezvousDone(Comers::kCommId); },
                                  gaveUpNs + 7 * kSecond));
  }
}

TEST_CASE("a rank with another secret hears so soon, and the others when they have waited for it") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Comers comers(seed);
    BootstrapNode& good = comers.comer();
    const MemberId first = good.join(comers.request(0, 3, comers.lastNode()));
    BootstrapNode& odd = comers.comer();
    JoinRequest request = comers.request(2, 3, comers.lastNode());
    request.secret = {7};
    const MemberId second = odd.join(request);
    REQUIRE(comers.world().runUntil([&] { return odd.failure(second).has_value(); }, 4 * kSecond));
    CHECK(odd.failure(second)->status.code() == tuttiInvalidUsage);
    CHECK(odd.failure(second)->status.message().find("rank 2 has another secret than the rendezvous at sim:") == 0);
    odd.leave(second);
    CHECK_FALSE(good.failure(first).has_value());  // anybody may say that he has another secret
    REQUIRE(comers.world().runUntil([&] { return good.failure(first).has_value(); }, Comers::kJoinNs));
    CHECK(good.failure(first)->status.message() ==
          "ranks 1 and 2 have not come to the rendezvous in time (1 of 3 ranks are here); one that calls itself "
          "rank 2 "
          "came with another secret: set TUTTI_SECRET alike on all ranks");
  }
}

namespace {

/// Dials the place as a rank, says this, and closes the link when the answer is there, perhaps with a last word.
class Beginner : public Machine {
 public:
  Beginner(Comers& comers, std::string hello, std::string last = "")
      : network_(comers.world().network(node_ = comers.world().addNode())),
        hello_(std::move(hello)),
        last_(std::move(last)) {
    comers.world().attach(node_, this);
    network_.dial(SimWorld::controlAddress(comers.placeNode()));
  }
  void onAccepted(LinkId) override {}
  void onConnected(LinkId link) override { network_.send(link, hello_); }
  void onMessage(LinkId link, std::string_view) override {
    if (!last_.empty()) network_.send(link, last_);
    network_.close(link);
    closed = true;
  }
  void onClosed(LinkId, const Status&) override {}
  int64_t nextTimerNs() const override { return kNoTimer; }
  void onTimer() override {}
  bool closed = false;

 private:
  int node_ = -1;
  Network& network_;
  const std::string hello_, last_;
};

std::string helloOf(const JoinRequest& request, const Secret& secret, unsigned char nonce) {
  const Hello hello{Purpose::Meet, request.commId, request.rank, -1, request.nRanks, 0};
  return DialerProof(secret, hello, Nonce{nonce}).hello();
}

}  // namespace

TEST_CASE("a rank whose link closes before its proof is gone, if it knew the secret and does not come back") {
  const auto seed = static_cast<uint64_t>(GENERATE(range(1, 21)));
  CAPTURE(seed);
  Comers comers(seed);
  SimWorld& world = comers.world();
  BootstrapNode& first = comers.comer();
  const MemberId member = first.join(comers.request(0, 3, comers.lastNode()));
  const JoinRequest lost = comers.request(1, 3, comers.lastNode());
  const auto failed = [&] { return first.failure(member).has_value(); };
  const auto began = [&](const Beginner& beginner) {
    return world.runUntil([&] { return beginner.closed; }, world.nowNs() + kSecond);
  };
  world.runUntil([] { return false; }, 100 * kMs);
  SECTION("gone") {
    const Beginner beginner(comers, helloOf(lost, lost.secret, 1));
    REQUIRE(began(beginner));
    const int64_t closedNs = world.nowNs();
    REQUIRE(world.runUntil(failed, 5 * kSecond));
    CHECK(world.nowNs() - closedNs < 300 * kMs);
    CHECK(first.failure(member)->rank == 1);
    CHECK(first.failure(member)->status.message() ==
          "rank 1 has lost its connection to the rendezvous while ranks were joining; its process has probably ended");
  }
  SECTION("one who does not know the secret says nothing of any rank") {
    const Beginner stranger(comers, helloOf(lost, {7}, 1));
    REQUIRE(began(stranger));
    CHECK_FALSE(world.runUntil(failed, 2 * kSecond));
  }
  SECTION("nor does one who gives up and says so") {
    const Beginner beginner(comers, helloOf(lost, lost.secret, 1), withdrawnMessage());
    REQUIRE(began(beginner));
    CHECK_FALSE(world.runUntil(failed, 2 * kSecond));
  }
  SECTION("a rank that gives up at once says so") {
    BootstrapNode& rank = comers.comer();
    JoinRequest request = lost;
    request.self = SimWorld::controlAddress(comers.lastNode());
    const MemberId id = rank.join(request);
    const uint64_t before = world.nMessages();
    REQUIRE(world.runUntil([&] { return world.nMessages() > before; }, world.nowNs() + kSecond));  // its hello
    rank.leave(id);
    CHECK_FALSE(world.runUntil(failed, world.nowNs() + 2 * kSecond));
  }
  SECTION("one who comes back is not gone, nor because somebody repeats what it said") {
    const std::string hello = helloOf(lost, lost.secret, 1);
    const Beginner beginner(comers, hello);
    REQUIRE(began(beginner));
    BootstrapNode& again = comers.comer();
    JoinRequest request = lost;
    request.self = SimWorld::controlAddress(comers.lastNode());
    again.join(request);
    CHECK_FALSE(world.runUntil(failed, world.nowNs() + 2 * kSecond));
    const Beginner repeated(comers, helloOf(comers.request(2, 3, 0), lost.secret, 3)), echo(comers, hello);
    REQUIRE(began(echo));
    REQUIRE(world.runUntil(failed, 5 * kSecond));
    CHECK(first.failure(member)->rank == 2);
  }
}

TEST_CASE("a launcher's word that a rank has ended fails those who wait for it, and nobody else") {
  for (const uint64_t seed : testSeeds(1, 20)) {
    CAPTURE(seed);
    Comers comers(seed);
    SimWorld& world = comers.world();
    const int late = static_cast<int>(seed % 2);  // whether it is said before anybody comes
    const auto end = [&] {
      comers.place().rankEnded({77}, 1, "ended with status 0");             // of another place
      comers.place().rankEnded(Comers::kCommId, 3, "ended with status 0");  // no rank
      comers.place().rankEnded(Comers::kCommId, 1, "ended with status 0");
    };
    if (late == 0) end();
    BootstrapNode& first = comers.comer();
    const MemberId member = first.join(comers.request(0, 3, comers.lastNode()));
    if (late != 0) world.at(kSecond, end);
    REQUIRE(world.runUntil([&] { return first.failure(member).has_value(); }, 1100 * kMs));
    CHECK(first.failure(member)->rank == 1);
    CHECK(first.failure(member)->status.message() ==
          "rank 1 ended with status 0 before it had met the other ranks, says its launcher");
  }
  for (const uint64_t seed : testSeeds(1, 20)) {
    CAPTURE(seed);
    SimWorld world(seed);
    SimJob job(world, {.nRanks = 4});
    for (int r = 0; r < 4; ++r)  // of one who has come, whatever its link says
      world.at(20 * kMs, [&, r] { job.place().rankEnded(job.request(0).commId, r, "ended with status 0"); });
    REQUIRE(job.run(60 * kSecond) == "");
    for (int r = 0; r < 4; ++r) CHECK(!job.rank(r).failure);
  }
}

TEST_CASE("a notice for a place with another secret, or none, is not told, and says why") {
  Comers comers(3);
  BootstrapNode& silent = comers.comer();
  JoinRequest request = comers.request(1, 3, comers.lastNode());
  request.secret = {7};
  const MemberId odd = silent.tell(request, {1, remoteError("no")});
  request.rendezvous = SimWorld::controlAddress(comers.lastNode());  // where nobody serves it
  const MemberId nowhere = silent.tell(request, {1, remoteError("no")});
  comers.world().runUntil([] { return false; }, 8 * kSecond);
  CHECK_FALSE(silent.told(odd));
  CHECK(silent.trouble(odd).code() == tuttiInvalidUsage);
  CHECK_FALSE(silent.told(nowhere));
  CHECK(silent.trouble(nowhere).message() ==
        "sim:1 took the connection, and does not know this communicator, or not yet");
  silent.forgetNotice(odd);
  silent.forgetNotice(nowhere);
}

TEST_CASE("where nobody knows who is missing, the error names the meeting place") {
  JoinRequest request;
  request.rank = 2, request.nRanks = 4, request.rendezvous = "10.0.0.7:4021";
  const std::string met = someMissing(request, 3 * kSecond).message();
  CHECK(met.find("rank 2 gave up joining after 3.0 s (rendezvous 10.0.0.7:4021); not all 4 ranks came") == 0);
  request.rendezvous.clear();
  CHECK(someMissing(request, 3 * kSecond).message().find("rank 2 gave up joining after 3.0 s; not all 4 ranks came") ==
        0);
}

TEST_CASE("a child communicator joins without a rendezvous, however late some are") {
  SimWorld world(11);
  const int nRanks = 9;
  std::vector<std::unique_ptr<BootstrapNode>> bootstraps;
  JoinRequest request{.commId = {5}, .secret = {6}, .nRanks = nRanks};
  std::vector<MemberId> members(nRanks);
  for (int r = 0; r < nRanks; ++r) {
    const int node = world.addNode();
    bootstraps.push_back(std::make_unique<BootstrapNode>(world.network(node), [] {}));
    world.attach(node, bootstraps.back().get());
    request.members.push_back(SimWorld::controlAddress(node));
  }
  for (int r = 0; r < nRanks; ++r)
    world.at(r * 3 * kSecond, [&, r, mine = request]() mutable {  // the dialers of the last wait for 24 s
      mine.rank = r;
      mine.self = mine.members[static_cast<size_t>(r)];
      mine.deadlineNs = 60 * kSecond;
      members[static_cast<size_t>(r)] = bootstraps[static_cast<size_t>(r)]->join(mine);
    });
  const bool up = world.runUntil(
      [&] {
        for (int r = 0; r < nRanks; ++r)
          if (members[static_cast<size_t>(r)] == 0 ||
              !bootstraps[static_cast<size_t>(r)]->up(members[static_cast<size_t>(r)]))
            return false;
        return true;
      },
      60 * kSecond);
  REQUIRE(up);
  CHECK(world.nowNs() < 25 * kSecond);

  SECTION("and opens streams between ranks, dialed by the lower one only") {
    for (int r : {2, 7}) bootstraps[static_cast<size_t>(r)]->dialStream(members[static_cast<size_t>(r)], 9 - r, 3);
    world.runUntil([&] { return !world.streams(2).empty() && !world.streams(7).empty(); }, world.nowNs() + kSecond);
    REQUIRE(world.streams(2).contains(BootstrapNode::streamKey({5}, 7, 3)));
    REQUIRE(world.streams(7).contains(BootstrapNode::streamKey({5}, 2, 3)));
    CHECK((world.streams(2).begin()->second ^ 1) == world.streams(7).begin()->second);
  }
}

TEST_CASE(
    "where ranks meet, one that has put its deadline off is waited for as long, and so is what comes late there") {
  enum class Late { Nobody, Rank, Place };
  struct Row {
    Late late;
    bool comes;
    int64_t leastNs, mostNs;
  };
  for (const Row& row :
       {Row{Late::Nobody, true, 3'750 * kMs, 3'800 * kMs}, Row{Late::Rank, true, 15 * kSecond, 16 * kSecond},
        Row{Late::Rank, false, 18 * kSecond, 20 * kSecond}, Row{Late::Place, true, 3'850 * kMs, 3'950 * kMs}}) {
    CAPTURE(static_cast<int>(row.late), row.comes);
    SimWorld world(13);
    const int place = world.addNode();
    BootstrapNode meeting(world.network(place), [] {});
    world.attach(place, &meeting);
    meeting.serveRendezvous({9}, {8}, "place");
    std::vector<std::unique_ptr<BootstrapNode>> ranks;
    for (int r = 0; r < 2; ++r) {
      ranks.push_back(std::make_unique<BootstrapNode>(world.network(world.addNode()), [] {}));
      world.attach(1 + r, ranks.back().get());
    }
    MemberId members[2] = {};
    const auto join = [&](int r, int64_t deadlineNs) {
      JoinRequest request{.commId = {9}, .secret = {8}, .rank = r, .nRanks = 2};
      request.self = SimWorld::controlAddress(1 + r);
      request.rendezvous = SimWorld::controlAddress(place);
      request.deadlineNs = deadlineNs;
      members[r] = ranks[static_cast<size_t>(r)]->join(request);
    };
    world.at(0, [&] { join(0, 5 * kSecond); });
    if (row.late == Late::Rank) {
      world.at(1 * kSecond, [&] { ranks[0]->putOff(members[0], 12 * kSecond); });
      world.at(2 * kSecond, [&] { ranks[0]->putOff(members[0], 20 * kSecond); });
    }
    if (row.late == Late::Place) world.at(3 * kSecond, [&] { meeting.putOffMeetings(kSecond); });
    if (row.comes) world.at(row.late == Late::Rank ? 15 * kSecond : 3'850 * kMs, [&] { join(1, 60 * kSecond); });
    REQUIRE(world.runUntil(
        [&] { return members[0] != 0 && (ranks[0]->up(members[0]) || ranks[0]->failure(members[0])); }, 60 * kSecond));
    const bool up = ranks[0]->up(members[0]);
    CHECK(up == (row.comes && row.late != Late::Nobody));
    if (!up) CHECK(ranks[0]->failure(members[0])->status.message().find("rank 1 has not come to") == 0);
    CHECK(world.nowNs() >= row.leastNs);
    CHECK(world.nowNs() <= row.mostNs);
  }
}

TEST_CASE("a join looks for whom to name ever closer to its deadline, which may be put off between any two looks") {
  using Look = JoinWatch::Look;
  struct Row {
    int64_t putOffAtMs;  // by 5 s
    std::vector<std::pair<int64_t, Look>> looks;
  };
  const std::vector<Row> rows = {
      {-1, {{18'000, Look::Unlinked}, {19'000, Look::Mute}, {20'000, Look::GiveUp}}},
      {1'000, {{23'000, Look::Unlinked}, {24'000, Look::Mute}, {25'000, Look::GiveUp}}},
      {18'500, {{18'000, Look::Unlinked}, {24'000, Look::Mute}, {25'000, Look::GiveUp}}},
      {19'500, {{18'000, Look::Unlinked}, {19'000, Look::Mute}, {25'000, Look::GiveUp}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.putOffAtMs);
    JoinWatch watch(20 * kSecond);
    watch.begin(0);
    CHECK(watch.tell(2 * kSecond) == 15'500 * kMs);  // before this rank looks itself
    std::vector<std::pair<int64_t, Look>> looks;
    for (int64_t ms = 0; ms <= 30'000; ms += 500) {
      if (ms == row.putOffAtMs) watch.putOff(25 * kSecond);
      CHECK(watch.toBeTold() == (row.putOffAtMs >= 0 && ms >= row.putOffAtMs));
      if (const Look look = watch.look(ms * kMs); look != Look::None) looks.emplace_back(ms, look);
    }
    CHECK(looks == row.looks);
    CHECK(watch.nextTimerNs() == kNoTimer);
  }
  JoinWatch forEver(kNoTimer);
  forEver.begin(kSecond);
  CHECK(forEver.nextTimerNs() == kNoTimer);
  CHECK(forEver.tell(2 * kSecond) == kNoTimer);
  CHECK_FALSE(forEver.toBeTold());
}

TEST_CASE("a join that is put off waits until then, and no longer") {
  for (const bool comes : {true, false}) {
    CAPTURE(comes);
    SimWorld world(12);
    std::vector<std::unique_ptr<BootstrapNode>> bootstraps;
    JoinRequest request{.commId = {5}, .secret = {6}, .nRanks = 2};
    for (int r = 0; r < 2; ++r) {
      const int node = world.addNode();
      bootstraps.push_back(std::make_unique<BootstrapNode>(world.network(node), [] {}));
      world.attach(node, bootstraps.back().get());
      request.members.push_back(SimWorld::controlAddress(node));
    }
    MemberId members[2] = {};
    const auto join = [&](int r, int64_t deadlineNs) {
      JoinRequest mine = request;
      mine.rank = r;
      mine.self = mine.members[static_cast<size_t>(r)];
      mine.deadlineNs = deadlineNs;
      members[r] = bootstraps[static_cast<size_t>(r)]->join(mine);
    };
    world.at(0, [&] { join(0, 5 * kSecond); });
    world.at(2 * kSecond, [&] { bootstraps[0]->putOff(members[0], 20 * kSecond); });
    world.at(3 * kSecond, [&] { bootstraps[0]->putOff(members[0], 10 * kSecond); });  // earlier is nothing new
    if (comes) world.at(15 * kSecond, [&] { join(1, 60 * kSecond); });
    const bool over = world.runUntil(
        [&] { return members[0] != 0 && (bootstraps[0]->up(members[0]) || bootstraps[0]->failure(members[0])); },
        60 * kSecond);
    REQUIRE(over);
    CHECK(bootstraps[0]->up(members[0]) == comes);
    CHECK(world.nowNs() >= (comes ? 15 : 18) * kSecond);
    CHECK(world.nowNs() <= 20 * kSecond + 100 * kMs);
  }
}
