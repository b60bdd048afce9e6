// Circles of waits through several communicators, found by chains that go from process to process.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "src/control/circles.hpp"
#include "tests/support/seeds.hpp"

using namespace tutti;

namespace {

/// Processes of one rank in each of their communicators.  Chains and failures travel in any order that a seed chooses.
class Machines {
 public:
  struct Wait {
    int communicator = -1;  // -1: it waits in nothing
    uint64_t sequence = 0;
    bool oneThread = true;
  };
  /// members[c]: processes of communicator c, by rank.
  Machines(std::vector<std::vector<int>> members, int nProcesses, uint64_t seed)
      : members_(std::move(members)), random_(seed), waits_(static_cast<size_t>(nProcesses)) {
    failures_.resize(members_.size());
    entered_.assign(static_cast<size_t>(nProcesses), std::vector<uint64_t>(members_.size(), 1));
    for (int p = 0; p < nProcesses; ++p)
      circles_.emplace_back(Circles::Hooks{
          .wait = [this, p] { return waitOf(p); },
          .lacks = [this, p](MemberId id, const Hop& hop) { return lacks(p, hop, id); },
          .rankOf = [this, p](MemberId id) { return rankOf(p, static_cast<int>(id) - 1); },
          .failed = [this](MemberId id) { return failures_[id - 1].has_value(); },
          .send = [this, p](MemberId id, const Chain& chain) { send(p, static_cast<int>(id) - 1, chain); },
          .fail = [this](MemberId id, const Failure& failure) { failures_[id - 1] = failure.status; }});
  }

  /// The process's thread makes its next call on a communicator, and waits there.
  void enter(int process, int communicator, bool oneThread = true) {
    waits_[static_cast<size_t>(process)] = {communicator, ++entered(process, communicator), oneThread};
  }
  void goOn(int process) { waits_[static_cast<size_t>(process)] = {}; }
  void begin(int process) {
    circles_[static_cast<size_t>(process)].begin(
        static_cast<MemberId>(waits_[static_cast<size_t>(process)].communicator + 1));
  }
  /// Until nothing travels any more, or `most` messages have come.
  void run(int most = 1000) {
    for (; most > 0 && !mail_.empty(); --most) {
      const size_t at = static_cast<size_t>(random_() % mail_.size());
      const Mail mail = mail_[at];
      mail_.erase(mail_.begin() + static_cast<ptrdiff_t>(at));
      Writer w;
      writeChain(w, mail.chain);
      const std::string bytes = w.take();
      Reader in(bytes);
      circles_[static_cast<size_t>(mail.to)].onChain(static_cast<MemberId>(mail.communicator + 1), readChain(in));
      REQUIRE(in.done());
    }
  }
  /// The text of each communicator's failure, or "".
  std::string failure(int communicator) const {
    const auto& failure = failures_[static_cast<size_t>(communicator)];
    return failure ? std::string(failure->message()) : "";
  }
  size_t nFailures() const {
    return static_cast<size_t>(
        std::count_if(failures_.begin(), failures_.end(), [](const auto& f) { return f.has_value(); }));
  }

 private:
  struct Mail {
    int to, communicator;
    Chain chain;
  };
  uint64_t& entered(int process, int communicator) {
    return entered_[static_cast<size_t>(process)][static_cast<size_t>(communicator)];
  }
  int rankOf(int process, int communicator) const {
    const std::vector<int>& all = members_[static_cast<size_t>(communicator)];
    return static_cast<int>(std::find(all.begin(), all.end(), process) - all.begin());
  }
  std::optional<std::pair<MemberId, Hop>> waitOf(int process) const {
    const Wait& wait = waits_[static_cast<size_t>(process)];
    if (wait.communicator < 0 || !wait.oneThread) return {};
    Hop hop{.process = static_cast<uint64_t>(process) + 100, .rank = rankOf(process, wait.communicator)};
    hop.commId[0] = static_cast<unsigned char>(wait.communicator);
    hop.sequence = wait.sequence;
    hop.text = cat("AllReduce number ", wait.sequence);
    hop.where = cat("communicator '", static_cast<char>('a' + wait.communicator), "' (process ", process, ")");
    return {{static_cast<MemberId>(wait.communicator + 1), hop}};
  }
  bool lacks(int process, const Hop& hop, MemberId id) {
    return hop.commId[0] == id - 1 && entered(process, static_cast<int>(id) - 1) < hop.sequence;
  }
  void send(int from, int communicator, const Chain& chain) {
    for (const int to : members_[static_cast<size_t>(communicator)])
      if (to != from) mail_.push_back({to, communicator, chain});
  }

  const std::vector<std::vector<int>> members_;
  std::mt19937_64 random_;
  std::vector<Wait> waits_;
  std::vector<std::vector<uint64_t>> entered_;
  std::vector<std::optional<Status>> failures_;
  std::vector<Circles> circles_;
  std::vector<Mail> mail_;
};

/// n processes around a ring, of which any two neighbours have a communicator: number i has processes i and i + 1.
std::vector<std::vector<int>> ring(int n) {
  std::vector<std::vector<int>> members;
  for (int i = 0; i < n; ++i) members.push_back({i, (i + 1) % n});
  return members;
}

}  // namespace

TEST_CASE("a circle through any number of communicators fails all of them, wherever it is looked for first") {
  for (const int n : {2, 3, 4, 7, 16}) {
    for (const uint64_t seed : testSeeds(1, 20)) {
      CAPTURE(n, seed);
      Machines m(ring(n), n, seed);
      for (int p = 0; p < n; ++p) m.enter(p, p);  // each waits for its right neighbour
      const int first = static_cast<int>(seed) % n;
      m.begin(first);
      m.run();
      CHECK(m.nFailures() == static_cast<size_t>(n));
      for (int c = 0; c < n; ++c) CHECK(m.failure(c) == m.failure(first));
      if (n == 3 && first == 0)
        CHECK(
            m.failure(0) ==
            "ranks of several communicators wait for each other for ever: rank 0 of communicator 'a' (process 0) is in "
            "AllReduce number 2 and waits for rank 1 of it, which as rank 0 of communicator 'b' (process 1) is in "
            "AllReduce number 2 and waits for rank 1 of it, which as rank 0 of communicator 'c' (process 2) is in "
            "AllReduce number 2 and waits for rank 1 of it, the first of these; all ranks must use the communicators "
            "that they share in one order");
    }
  }
}

TEST_CASE("a chain that met one who did not wait yet is no hindrance to the next") {
  for (const uint64_t seed : testSeeds(1, 20)) {
    CAPTURE(seed);
    Machines m(ring(4), 4, seed);
    for (int p = 0; p < 3; ++p) m.enter(p, p);
    m.begin(0);
    m.run();
    CHECK(m.nFailures() == 0);
    m.enter(3, 3);
    m.begin(0);  // again, from the same wait
    m.run();
    CHECK(m.nFailures() == 4);
  }
}

TEST_CASE("a process outside a circle that waits for one of it finds it, and its own communicator is left alone") {
  for (const uint64_t seed : testSeeds(1, 20)) {
    CAPTURE(seed);
    std::vector<std::vector<int>> members = ring(3);
    members.push_back({3, 1});
    Machines m(members, 4, seed);
    for (int p = 0; p < 3; ++p) m.enter(p, p);
    m.enter(3, 3);
    m.begin(3);
    m.run();
    CHECK(m.nFailures() == 3);
    CHECK(m.failure(3).empty());
  }
}

TEST_CASE("what is no circle, or need not be one, is none") {
  const auto seed = static_cast<uint64_t>(GENERATE(range(1, 21)));
  CAPTURE(seed);
  Machines m(ring(4), 4, seed);
  const auto all = [&] {
    for (int p = 0; p < 4; ++p) m.enter(p, p, p != 2 || seed % 2 == 0);
  };
  SECTION("one computes") {
    all();
    m.goOn(1);
    m.begin(0);
  }
  SECTION("one has other threads") {
    all();
    m.enter(1, 1, false);
    m.begin(0);
  }
  SECTION("one has entered the call already") {
    m.enter(1, 0);
    all();
    m.goOn(0);
    m.enter(0, 3);
    m.begin(3);
  }
  SECTION("one goes on while the chain is under way") {
    all();
    m.begin(0);
    m.run(1 + static_cast<int>(seed % 2));
    m.goOn(0);
    m.enter(0, 3);  // which its left neighbour waits for: that one will go on
    m.goOn(3);
  }
  m.run();
  CHECK(m.nFailures() == 0);
}

TEST_CASE("chains of others are read with care") {
  Writer w;
  writeChain(w, {true, 5, {Hop{.process = 7, .rank = 3, .text = std::string(1000, 'x'), .where = "here"}}});
  const std::string whole = w.take();
  Reader in(whole);
  const Chain chain = readChain(in);
  REQUIRE(in.done());
  REQUIRE(chain.hops.size() == 1);
  CHECK(chain.closed);
  CHECK(chain.hops[0].text.size() == kMostHopBytes);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Reader cut(std::string_view(whole).substr(0, bytes));
    (void)readChain(cut);
    CHECK_FALSE(cut.done());
  }
  Circles deaf({.wait = [] { return std::optional<std::pair<MemberId, Hop>>(); }});
  deaf.onChain(1, {});
  deaf.onChain(1, {false, 1, std::vector<Hop>(kMostHops + 1)});
}
