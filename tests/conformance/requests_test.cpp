// Requests: any number of sends and receives under way on an endpoint, asked of every transport.
#include <catch2/catch.hpp>
#include <random>

#include "tests/conformance/each.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

/// Messages of one direction, each in memory of its own, posted as far as there is room.
class Posted {
 public:
  Posted(Harness& harness, Endpoint& from, Endpoint& to, std::vector<size_t> sizes, uint64_t seed)
      : from_(from), to_(to), sizes_(std::move(sizes)), seed_(seed) {
    for (uint32_t i = 0; i < sizes_.size(); ++i) {
      out_.emplace_back(sizes_[i]);
      fillPattern(out_.back(), seed_, i);
      in_.emplace_back(sizes_[i] + 1, std::byte{0xA5});
      kept_.push_back(harness.keep(out_.back()));
      kept_.push_back(harness.keep(in_.back()));
    }
  }

  Status postSends() {
    for (uint32_t i = static_cast<uint32_t>(sends.size()); i < sizes_.size(); ++i) {
      TUTTI_ASSIGN(const Request request, from_.postSend(place(out_[i]), sizes_[i], callNumber(i)));
      if (request == 0) break;
      sends.push_back(request);
    }
    return {};
  }
  Status postReceives() {
    for (uint32_t i = static_cast<uint32_t>(receives.size()); i < sizes_.size(); ++i) {
      TUTTI_ASSIGN(const Request request, to_.postReceive(in_[i].data(), {sizes_[i], callNumber(i)}));
      if (request == 0) break;
      receives.push_back(request);
    }
    return {};
  }
  /// What is done is checked, and its memory is used for something else.
  Status testAll() {
    for (; sent < sends.size(); ++sent) {
      TUTTI_ASSIGN(const bool done, from_.test(sends[sent]));
      if (!done) break;
      std::fill(out_[sent].begin(), out_[sent].end(), std::byte{0xEE});
    }
    for (; received < receives.size(); ++received) {
      TUTTI_ASSIGN(const bool done, to_.test(receives[received]));
      if (!done) break;
      std::vector<std::byte> want(sizes_[received] + 1, std::byte{0xA5});
      fillPattern(std::span(want).first(sizes_[received]), seed_, static_cast<uint32_t>(received));
      if (in_[received] != want) return internalError("message ", received, " has wrong content");
    }
    return {};
  }
  bool done() const { return sent == sizes_.size() && received == sizes_.size(); }
  std::vector<std::byte>& out(size_t i) { return out_[i]; }
  std::vector<std::byte>& in(size_t i) { return in_[i]; }

  std::vector<Request> sends, receives;
  size_t sent = 0, received = 0;  // those that are done

 private:
  /// A token may be posted from nowhere.
  static const std::byte* place(const std::vector<std::byte>& memory) {
    return memory.empty() ? nullptr : memory.data();
  }
  Endpoint& from_;
  Endpoint& to_;
  std::vector<size_t> sizes_;
  uint64_t seed_;
  std::vector<std::vector<std::byte>> out_, in_;
  std::vector<std::vector<std::unique_ptr<MemoryRegistration>>> kept_;
};

/// Until all are done; "" or what went wrong.
std::string drive(Harness& harness, std::span<Posted* const> all) {
  const Deadline deadline = Deadline::inMs(20'000);
  for (bool done = false; !done;) {
    done = true;
    for (Posted* posted : all) {
      for (const Status& status : {posted->postReceives(), posted->postSends(), posted->testAll()}) {
        if (!status.ok()) return status.message();
      }
      done = done && posted->done();
    }
    harness.pump();
    if (!done && deadline.passed()) return "nothing moves any more";
  }
  return "";
}

std::vector<size_t> randomSizes(uint64_t seed, size_t n, size_t most) {
  std::mt19937_64 random(seed);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < n; ++i) {
    const size_t limit = random() % 3 == 0 ? most : std::min<size_t>(most, 200);
    sizes.push_back(random() % 5 == 0 ? 0 : random() % (limit + 1));
  }
  return sizes;
}

}  // namespace

TEST_CASE("many requests are under way in both directions, in order and on memory of their own") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    const size_t most = pair.first().slotBytes();
    for (const uint64_t seed : {1, 2, 3}) {
      CAPTURE(seed);
      Posted there(harness, pair.first(), pair.second(), randomSizes(seed, 70, most), seed);
      if (!harness.hasTwoEnds()) {
        Posted* const one[] = {&there};
        REQUIRE(drive(harness, one) == "");
        continue;
      }
      Posted back(harness, pair.second(), pair.first(), randomSizes(seed + 9, 50, most), seed + 9);
      Posted* const both[] = {&there, &back};
      REQUIRE(drive(harness, both) == "");
      for (const Request request : there.receives) REQUIRE(*pair.second().test(request));
      for (const Request request : back.sends) REQUIRE(*pair.second().test(request));
    }
  });
}

TEST_CASE("receives that are posted ahead are filled in order, whichever is asked for") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    Posted posted(harness, pair.first(), pair.second(), {0, 100, 1, pair.first().slotBytes(), 0, 8}, 4);
    REQUIRE(posted.postReceives().message() == "");
    REQUIRE(posted.receives.size() == 6);
    for (const Request request : posted.receives) CHECK_FALSE(*pair.second().test(request));
    // The last alone is asked for: then all are there.
    const Result<bool> last = poll(harness, [&]() -> Result<bool> {
      TUTTI_TRY(posted.postSends());
      for (const Request request : posted.sends) TUTTI_TRY(asStatus(pair.first().test(request)));
      return pair.second().test(posted.receives.back());
    });
    REQUIRE(last.status().message() == "");
    REQUIRE(*last);
    for (const Request request : posted.receives) CHECK(*pair.second().test(request));
    Posted* const all[] = {&posted};
    CHECK(drive(harness, all) == "");
  });
}

TEST_CASE("ranks that post before they test do not wait for each other, whatever they post") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    const std::vector<size_t> sizes(12, pair.first().slotBytes());
    Posted there(harness, pair.first(), pair.second(), sizes, 5), back(harness, pair.second(), pair.first(), sizes, 6);
    REQUIRE(there.postSends().message() == "");
    REQUIRE(back.postSends().message() == "");
    Posted* const both[] = {&there, &back};
    CHECK(drive(harness, both) == "");
  });
}

TEST_CASE("what does not meet what a receive expects is said of that one, and of those behind it") {
  const auto odd = [](const Expect& expect, bool size) {
    return size ? Expect{expect.bytes + 8, expect.call} : Expect{expect.bytes, callNumber(77)};
  };
  for (const bool size : {false, true}) {
    for (const Row& row : rows()) {
      DYNAMIC_SECTION((size ? "size, " : "call, ") << row.name) {
        const auto harness = row.make();
        Result<Pair> pair = harness->open(0);
        REQUIRE(pair.ok());
        Endpoint &from = pair->first(), &to = pair->second();
        std::vector<std::vector<std::byte>> in(5, std::vector<std::byte>(200));
        std::vector<std::byte> out(100, std::byte{1});
        std::vector<std::vector<std::unique_ptr<MemoryRegistration>>> kept;
        kept.push_back(harness->keep(out));
        for (std::vector<std::byte>& memory : in) kept.push_back(harness->keep(memory));
        std::vector<Request> receives;
        for (uint32_t i = 0; i < 5; ++i) {
          const Expect expect{100, callNumber(i)};
          receives.push_back(*to.postReceive(in[i].data(), i == 2 ? odd(expect, size) : expect));
          REQUIRE(receives.back() != 0);
        }
        std::vector<Request> sends;
        const Result<bool> refused = poll(*harness, [&]() -> Result<bool> {
          if (sends.size() < 5) {
            TUTTI_ASSIGN(const Request request,
                         from.postSend(out.data(), 100, callNumber(static_cast<uint32_t>(sends.size()))));
            if (request != 0) sends.push_back(request);
          }
          for (const Request request : sends) TUTTI_TRY(asStatus(from.test(request)));
          return to.test(receives[4]);
        });
        CHECK(refused.status().code() == tuttiInvalidUsage);
        CHECK(*to.test(receives[0]));
        CHECK(*to.test(receives[1]));
        CHECK(in[1][99] == std::byte{1});
        for (const size_t i : {2u, 3u, 4u}) {
          CHECK(to.test(receives[i]).status().message() == refused.status().message());
        }
        CHECK(refused.status().message().find(describeCall(callNumber(2))) != std::string::npos);
        CHECK(to.seen() == callNumber(2));
      }
    }
  }
}

TEST_CASE("a peer that ends fails the requests that are not done, and no others") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.noticesClose() || !harness.hasTwoEnds()) return;
    std::vector<std::byte> out(300), in(300);
    std::vector<std::byte> large(pair.b->slotBytes());
    const auto keptOut = harness.keep(out), keptIn = harness.keep(in), keptLarge = harness.keep(large);
    std::vector<Request> receives, sends;
    for (uint32_t i = 0; i < 4; ++i) receives.push_back(*pair.b->postReceive(in.data(), {300, callNumber(i)}));
    for (uint32_t i = 0; i < 2; ++i) sends.push_back(*pair.a->postSend(out.data(), 300, callNumber(i)));
    const Result<bool> came = poll(harness, [&]() -> Result<bool> {
      TUTTI_TRY(asStatus(pair.a->test(sends[1])));
      return pair.b->test(receives[1]);
    });
    REQUIRE(came.status().message() == "");
    REQUIRE(*came);
    std::vector<Request> unread;
    for (uint32_t i = 0; i < 60; ++i) {
      const Result<Request> request = pair.b->postSend(large.data(), large.size(), callNumber(i));
      if (!request.ok() || *request == 0) break;
      unread.push_back(*request);
    }
    pair.a.reset();
    const Result<bool> next = poll(harness, [&] { return pair.b->test(receives[2]); });
    CHECK(next.status().code() == tuttiRemoteError);
    CHECK(next.status().message().find("rank 0") != std::string::npos);
    CHECK(*pair.b->test(receives[0]));
    CHECK(*pair.b->test(receives[1]));
    CHECK(pair.b->test(receives[3]).status().message() == next.status().message());
    CHECK(pair.b->test(unread.back()).status().code() == tuttiRemoteError);
    CHECK(pair.b->postSend(out.data(), 300, callNumber(9)).status().code() == tuttiRemoteError);
  });
}

TEST_CASE("receives that were cancelled are not written any more") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    const size_t bytes = pair.first().slotBytes();
    Posted posted(harness, pair.first(), pair.second(), {bytes, bytes, bytes}, 7);
    REQUIRE(posted.postReceives().message() == "");
    // The first may have come in part.
    const Request sent = *pair.first().postSend(posted.out(0).data(), bytes, callNumber(0));
    for (int i = 0; i < 3; ++i) {
      REQUIRE(pair.first().test(sent).ok());
      REQUIRE(pair.second().test(posted.receives[2]).ok());
      harness.pump();
    }
    const bool first = *pair.second().test(posted.receives[0]);
    pair.second().cancel();
    for (size_t i = 0; i < 3; ++i) std::fill(posted.in(i).begin(), posted.in(i).end(), std::byte{0x11});
    for (int i = 0; i < 200; ++i) {
      (void)posted.postSends();
      for (const Request request : posted.sends) (void)pair.first().test(request);
      (void)harness.progress();
      harness.pump();
    }
    for (size_t i = 0; i < 3; ++i) {
      CHECK(posted.in(i) == std::vector<std::byte>(bytes + 1, std::byte{0x11}));
      if (i > 0 || !first) CHECK_FALSE(pair.second().test(posted.receives[i]).ok());
    }
  });
}

TEST_CASE("memory of sends that were cancelled is not read any more") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    constexpr size_t kMessages = 40;
    const size_t bytes = pair.first().slotBytes();
    Posted posted(harness, pair.first(), pair.second(), std::vector<size_t>(kMessages, bytes), 8);
    REQUIRE(posted.postSends().message() == "");
    REQUIRE(!posted.sends.empty());
    std::vector<std::byte> got(bytes), want(bytes);
    size_t came = 0;
    const auto receive = [&]() -> Result<bool> {
      while (came < kMessages) {
        TUTTI_ASSIGN(const bool one,
                     pair.second().receive(got.data(), {bytes, callNumber(static_cast<uint32_t>(came))}));
        if (!one) break;
        fillPattern(want, 8, static_cast<uint32_t>(came++));
        if (got != want) return internalError("message ", came - 1, " has wrong content");
      }
      return came > 0;
    };
    const Result<bool> some = poll(harness, [&]() -> Result<bool> {
      TUTTI_TRY(asStatus(pair.first().test(posted.sends.back())));
      return receive();
    });
    REQUIRE(some.status().message() == "");
    REQUIRE(*some);
    pair.first().cancel();
    for (size_t i = 0; i < kMessages; ++i) std::vector<std::byte>(bytes, std::byte{0xEE}).swap(posted.out(i));
    const Result<bool> rest = poll(
        harness,
        [&]() -> Result<bool> {
          (void)harness.progress();
          TUTTI_TRY(asStatus(receive()));
          return false;
        },
        50);
    CHECK(rest.status().code() != tuttiInternalError);
    CAPTURE(rest.status().message());
  });
}
