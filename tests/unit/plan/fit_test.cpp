// Overrides that fit, those that do not, and what is said of them.
#include "src/plan/fit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "src/plan/estimates.hpp"
#include "tests/unit/plan/requests.hpp"

namespace {

using namespace tutti;
using test::contains;
using test::figures;
using test::kMiB;
using test::request;

PlanRequest asking(PlanRequest r, const Algorithm& a, bool strict) {
  r.overrides.algorithm[static_cast<size_t>(a.collective)] = &a;
  r.overrides.strict = strict;
  return r;
}

Honoured honoured(const PlanRequest& r) {
  const auto all = honour(r, figures());
  REQUIRE(all.status().message() == "");
  return *all;
}

std::string refusal(PlanRequest r) {
  r.overrides.strict = true;
  const Status status = honour(r, figures()).status();
  CHECK(status.code() == tuttiInvalidUsage);
  CHECK(plan(r, figures()).status().message() == status.message());
  return status.message();
}

/// The names that a refusal says would do.
std::set<std::string> alternatives(const std::string& refusal) {
  const std::string before = "these would: ";
  const size_t begin = refusal.find(before);
  if (begin == std::string::npos) return {};
  const size_t end = refusal.find_first_of(".;", begin + before.size());
  std::set<std::string> names;
  for (const std::string& name : split(refusal.substr(begin + before.size(), end - begin - before.size()), ',')) {
    names.insert(name.substr(name.find_first_not_of(' ')));
  }
  return names;
}

/// The names of those that are not refused.
std::set<std::string> thatFit(const PlanRequest& r) {
  std::set<std::string> names;
  for (const Algorithm* a : algorithms()) {
    if (a->collective == r.shape.collective && honour(asking(r, *a, true), figures()).ok()) names.emplace(a->name);
  }
  return names;
}

/// Ranks in one group and in groups of 4, in every order of operands, in place or not, with blocks alike or not.
std::vector<PlanRequest> requestsFor(Collective collective) {
  std::vector<PlanRequest> all;
  for (int n = 1; n <= 17; ++n) {
    for (int bits = 0; bits < 16; ++bits) {
      PlanRequest r = request(collective, 1, n, 4096);
      r.shape.commutative = (bits & 1) == 0;
      r.shape.inPlace = (bits & 2) != 0;
      r.shape.uneven = (bits & 4) != 0;
      if ((bits & 8) != 0) {
        r.shape.inner.emplace_back();
        for (int rank = 0; rank < n; ++rank) r.shape.inner[0].push_back(rank / 4);
      }
      all.push_back(std::move(r));
    }
  }
  return all;
}

std::vector<std::vector<Schedule>> plansOf(const Shape& of, std::initializer_list<int> lanes) {
  std::vector<std::vector<Schedule>> all;
  for (const int n : lanes) {
    std::vector<Schedule>& plan = all.emplace_back();
    Shape shape = of;
    for (shape.rank = 0; shape.rank < of.nRanks; ++shape.rank) {
      plan.push_back(findAlgorithm(of.collective, "ring")->build(shape));
      plan.back().lanes.resize(static_cast<size_t>(n));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("an algorithm that does not fit is set aside with what it needs, or refused with exactly those that fit") {
  int unfit = 0;
  for (int c = 0; c < kNumCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const PlanRequest& r : requestsFor(collective)) {
      const std::set<std::string> fit = thatFit(r);
      for (const Algorithm* a : algorithms()) {
        if (a->collective != collective) continue;
        const Honoured all = honoured(asking(r, *a, false));
        CAPTURE(collectiveKey(collective), a->name, r.shape.nRanks, r.shape.uneven, r.shape.commutative);
        REQUIRE(a->supports(r.shape) == fit.contains(std::string(a->name)));
        if (a->supports(r.shape)) {
          CHECK(all.unmet.empty());
          CHECK(all.overrides.of(collective) == a);
          continue;
        }
        ++unfit;
        REQUIRE(all.unmet.size() == 1);
        CHECK(all.unmet[0].asked == cat("TUTTI_ALGO=", a->name));
        CHECK(all.unmet[0].reason == cat("it needs ", a->missing(r.shape)));
        CHECK(all.overrides.of(collective) == nullptr);
        const std::string why = refusal(asking(r, *a, true));
        CHECK(contains(why, cat(a->name, " does not serve ", describe(r.shape), ": it needs ", a->missing(r.shape))));
        CHECK(alternatives(why) == fit);
        CHECK(!fit.empty());
      }
    }
  }
  CHECK(unfit > 1000);
}

TEST_CASE("what is set aside is chosen as if it had not been asked for, alike on all ranks") {
  for (const Algorithm* a : algorithms()) {
    if (a->lacks == nullptr) continue;
    PlanRequest r = request(a->collective, 1, 7, 4096);
    r.shape.uneven = a->collective != Collective::AllReduce;
    if (a->supports(r.shape)) continue;
    CAPTURE(collectiveKey(a->collective), a->name);
    const Choice free = *plan(r, figures());
    r = asking(r, *a, false);
    for (r.shape.rank = 0; r.shape.rank < 7; r.shape.rank += 3) {
      const auto choice = plan(r, figures());
      REQUIRE(choice.ok());
      CHECK(choice->algorithm == free.algorithm);
      CHECK(choice->protocol == free.protocol);
      CHECK(choice->costUs == free.costUs);
      REQUIRE(choice->unmet.size() == 1);
      CHECK(choice->overrides.of(a->collective) == nullptr);
      CHECK(contains(explain(r, *choice), cat("without TUTTI_ALGO=", a->name, ": it needs ")));
    }
  }
}

TEST_CASE("protocols that do not fit are set aside, or refused with those that do") {
  struct Row {
    Protocol asked;
    LinkProfile link;
    bool readable;
    size_t bytes;
    const char* reason;  // empty: it fits
    std::set<std::string> fit;
  };
  const LinkProfile shm = kShmProcesses, tcp = kTcpLocal;
  for (const Row& row :
       {Row{Protocol::Inline, shm, true, kMiB, "inline takes up to 48 bytes", {"slots", "direct"}},
        Row{Protocol::Inline, shm, false, 2 * kMiB, "inline takes up to 48 bytes", {"slots"}},
        Row{Protocol::Inline, shm, true, 8, "", {}},
        Row{Protocol::Direct, shm, false, 8, "not every rank's buffers can be read by its peers", {"inline", "slots"}},
        Row{Protocol::Direct, tcp, false, kMiB, "tcp-local links have no direct protocol", {"slots"}},
        Row{Protocol::Slots, tcp, false, kMiB, "", {}}}) {
    PlanRequest r = request(Collective::AllReduce, 1, 3, row.bytes);
    r.links.intra = row.link;
    r.directPossible = row.readable;
    r.overrides.protocol = row.asked;
    CAPTURE(protocolName(row.asked), row.bytes, row.reason);
    const Honoured all = honoured(r);
    CHECK(all.unmet.empty() == (row.reason[0] == '\0'));
    CHECK(all.overrides.protocol.has_value() == all.unmet.empty());
    if (all.unmet.empty()) continue;
    CHECK(all.unmet[0] == Unmet{cat("TUTTI_PROTO=", protocolName(row.asked)), row.reason});
    CHECK(plan(r, figures()).ok());
    CHECK(alternatives(refusal(r)) == row.fit);
    for (const Protocol p : {Protocol::Inline, Protocol::Slots, Protocol::Direct}) {
      r.overrides.protocol = p;
      r.overrides.strict = true;
      CHECK(honour(r, figures()).ok() == row.fit.contains(protocolName(p)));
    }
  }
}

TEST_CASE("a rank by itself sends nothing, so that any protocol serves it") {
  PlanRequest r = request(Collective::AllReduce, 1, 1, kMiB);
  r.overrides.protocol = Protocol::Inline;
  r.overrides.strict = true;
  CHECK(plan(r, figures()).ok());
  CHECK(honoured(r).unmet.empty());
}

TEST_CASE("of too many channels there are as many as can be, or none with the reason") {
  struct Row {
    const char* algorithm;  // with how many lanes
    int asked, mostChannels, mostLanes, had;
    const char* reason;  // empty: as asked for
  };
  for (const Row& row : {Row{"", 3, 2, 63, 2, "at most 2 channels can be had here"}, Row{"", 2, 2, 63, 2, ""},
                         Row{"", 4, 8, 1, 1, "at most 1 channel can be had here"}, Row{"tree", 8, 8, 16, 8, ""},
                         Row{"tree", 8, 8, 15, 7, "at most 7 channels with 2 lanes each can be had here"},
                         Row{"tree", 64, 8, 4, 2, "at most 2 channels with 2 lanes each can be had here"},
                         Row{"ring", 8, 8, 4, 4, "at most 4 channels can be had here"}}) {
    PlanRequest r = request(Collective::AllReduce, 2, 1, 64 * kMiB);
    r.mostChannels = row.mostChannels;
    r.mostLanes = row.mostLanes;
    r.overrides.nChannels = row.asked;
    CAPTURE(row.algorithm, row.asked, row.mostChannels, row.mostLanes);
    if (row.algorithm[0] != '\0') REQUIRE(parseAlgorithms(cat("allreduce:", row.algorithm), &r.overrides).ok());
    const auto choice = plan(r, figures());
    REQUIRE(choice.ok());
    CHECK(choice->nChannels == row.had);
    CHECK(choice->algorithm->lanes * choice->nChannels <= row.mostLanes);
    CHECK((row.algorithm[0] == '\0' || choice->name() == row.algorithm));
    const std::string asked = cat("TUTTI_NCHANNELS (or config.nChannels) = ", row.asked);
    if (row.reason[0] == '\0') {
      CHECK(choice->unmet.empty());
      continue;
    }
    REQUIRE(choice->unmet == std::vector<Unmet>{{asked, row.reason}});
    CHECK(contains(refusal(r), cat(asked, " does not serve allreduce of 67108864 bytes on 2 ranks: ", row.reason)));
    r.overrides.nearestChannels = true;
    r.overrides.strict = true;
    CHECK(plan(r, figures())->nChannels == row.had);
  }
}

// What is asked of a call may leave it fewer channels than another of the same communicator has.
TEST_CASE("costs that are kept are those of as many channels") {
  Calibration fast = figures();
  fast.at(kTcpRemote, Protocol::Slots).cost = {20, 11.5};
  PlanRequest r = request(Collective::AllReduce, 2, 1, 64 * kMiB);
  const Variant way{*findAlgorithm(Collective::AllReduce, "ring"), Protocol::Slots, {}, false};
  Estimates shared;
  for (const int channels : {1, 2, 3}) {
    r.overrides.nChannels = channels;
    Estimates own;
    CHECK(shared.cost(r, fast, way)->us == own.cost(r, fast, way)->us);
  }
}

TEST_CASE("an algorithm with more lanes than there are is none to choose") {
  PlanRequest r = request(Collective::AllReduce, 1, 4, 64);
  r.mostLanes = 1;
  REQUIRE(parseAlgorithms("allreduce:tree", &r.overrides).ok());
  CHECK(honoured(r).unmet == std::vector<Unmet>{{"TUTTI_ALGO=tree", "it needs 2 lanes, and there are 1", true}});
  const std::set<std::string> named = alternatives(refusal(r));
  CHECK(!named.contains("tree"));
  CHECK(named.contains("ring"));
  CHECK(plan(r, figures())->name() != "tree");
}

TEST_CASE("plans that are asked for and do not fit are set aside, or refused with what does") {
  PlanRequest r = request(Collective::AllReduce, 1, 4, 65536);
  const std::vector<std::vector<Schedule>> all = plansOf(r.shape, {1, 64, 20});
  r.ready = {{"theirs", "file", "dir/file.xml", &all[0], &all[0]},
             {"broad", "file2", "dir/file2.xml", &all[1], &all[1]},
             {"ring", "file3", "dir/file3.xml", &all[2], nullptr}};
  const auto ask = [&](const char* name) {
    r.overrides.ready[static_cast<size_t>(Collective::AllReduce)] = name;
    return honoured(r);
  };
  for (const char* name : {"theirs", "file", "file3"}) CHECK(ask(name).unmet.empty());
  CHECK(ask("broad").unmet == std::vector<Unmet>{{"TUTTI_ALGO=broad", "it needs 64 lanes, and there are 63", true}});
  CHECK(ask("broad").overrides.readyOf(Collective::AllReduce).empty());
  const std::set<std::string> named = alternatives(refusal(r));
  for (const char* name : {"theirs", "file3", "ring", "tree"}) CHECK(named.contains(name));
  for (const char* name : {"broad", "file2", "hierarchical"}) CHECK(!named.contains(name));
  r.whyNoneReady = "it is for 8 ranks";
  CHECK(ask("other").unmet == std::vector<Unmet>{{"TUTTI_ALGO=other", "it is for 8 ranks", true}});
  r.overrides.nChannels = 8;
  CHECK(ask("file3").unmet.size() == 1);
  CHECK(ask("file3").overrides.nChannels == 3);
  CHECK(plan(r, figures())->name() == "ring");
  CHECK(plan(r, figures())->origin() == "dir/file3.xml");
}

TEST_CASE("reasons are the same for calls of several sizes") {
  PlanRequest small = request(Collective::AllReduce, 1, 3, 1000), large = request(Collective::AllReduce, 1, 3, kMiB);
  for (PlanRequest* r : {&small, &large}) {
    REQUIRE(parseAlgorithms("torus3d", &r->overrides).ok());
    r->overrides.protocol = Protocol::Inline;
    r->overrides.nChannels = 9;
  }
  CHECK(honoured(small).unmet.size() == 3);
  CHECK(honoured(small).unmet == honoured(large).unmet);
  CHECK(sentence(honoured(small).unmet[0], small.shape) ==
        "TUTTI_ALGO=torus3d does not serve allreduce of 1000 bytes on 3 ranks: it needs a number of ranks that is a "
        "product of three above 1");
  // A refusal names all of them.
  for (const char* part : {"TUTTI_ALGO=torus3d does", "TUTTI_PROTO=inline does", "TUTTI_NCHANNELS (or"}) {
    CHECK(contains(refusal(small), part));
  }
}
