// What transport/transport.hpp promises, asked of every transport.
#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/each.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

std::string one(Harness& harness, Endpoint& from, Endpoint& to, const Message& message, uint32_t number) {
  Sender sender(from, {message}, 1, number);
  Receiver receiver(to, {message}, 1, number);
  Actor* const actors[] = {&sender, &receiver};
  return drive(harness, actors);
}

// Send `message` while the other end asks for nothing.
Answer sendUnasked(Harness& harness, Endpoint& from, std::span<const std::byte> message, uint32_t number) {
  return poll(harness, [&]() -> Result<bool> {
    (void)harness.progress();
    return from.send(message.data(), message.size(), callNumber(number));
  });
}

Answer receiveExpected(Harness& harness, Endpoint& endpoint, std::span<std::byte> out, uint32_t number) {
  return poll(harness, [&] { return endpoint.receive(out.data(), {out.size(), callNumber(number)}); });
}

std::vector<std::byte> pattern(size_t bytes, uint32_t number) {
  std::vector<std::byte> out(bytes);
  fillPattern(out, 1, number);
  return out;
}

}  // namespace

TEST_CASE("a message of any size arrives, whichever way it is sent and taken") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    uint32_t number = 0;
    for (const How how : {How::Send, How::Reserve, How::Offer}) {
      for (const Take take : {Take::Receive, Take::Peek, Take::Parts}) {
        for (const size_t bytes : interestingSizes(pair.first().slotBytes())) {
          CAPTURE(int(how), int(take), bytes);
          REQUIRE(one(harness, pair.first(), pair.second(), {bytes, how, take}, number++) == "");
          REQUIRE(one(harness, pair.second(), pair.first(), {bytes, how, take, 3}, number++) == "");
        }
      }
    }
  });
}

TEST_CASE("messages keep their order, whatever their sizes and ways, both directions at once") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
      CAPTURE(seed);
      const auto there = randomMessages(seed, 120, pair.first().slotBytes(), pair.first().maxDirectBytes());
      const auto back = randomMessages(seed + 100, 120, pair.first().slotBytes(), pair.first().maxDirectBytes());
      Sender sendThere(pair.first(), there, seed);
      Receiver receiveThere(pair.second(), there, seed);
      Sender sendBack(pair.second(), back, seed + 1);
      Receiver receiveBack(pair.first(), back, seed + 1);
      Actor* const both[] = {&sendThere, &receiveThere, &sendBack, &receiveBack};
      Actor* const oneWay[] = {&sendThere, &receiveThere};
      REQUIRE((harness.hasTwoEnds() ? drive(harness, both) : drive(harness, oneWay)) == "");
    }
  });
}

TEST_CASE("a sender always has room for one message, also while the receiver still reads the one before") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    const size_t bytes = pair.first().slotBytes();
    const auto first = pattern(bytes, 1);
    const auto second = pattern(bytes, 2);
    REQUIRE(*sendUnasked(harness, pair.first(), first, 1));
    const std::byte* held = nullptr;
    REQUIRE(*poll(harness, [&]() -> Result<bool> {
      TUTTI_ASSIGN(held, pair.second().peek({bytes, callNumber(1)}));
      return held != nullptr;
    }));
    const bool keeps = harness.hasTwoEnds();  // a rank alone takes its message before it sends the next
    if (!keeps) pair.second().release();
    REQUIRE(*sendUnasked(harness, pair.first(), second, 2));
    if (keeps) {
      CHECK(std::equal(first.begin(), first.end(), held));
      pair.second().release();
    }
    std::vector<std::byte> out(bytes);
    REQUIRE(*receiveExpected(harness, pair.second(), out, 2));
    CHECK(out == second);
  });
}

TEST_CASE("two ranks that first send a whole slot and then receive do not block each other") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.hasTwoEnds()) return;
    const size_t bytes = pair.first().slotBytes();
    std::vector<std::byte> out(bytes);
    for (uint32_t round = 0; round < 4; ++round) {
      const auto message = pattern(bytes, round);
      bool sent[2] = {false, false};
      const Result<bool> all = poll(harness, [&]() -> Result<bool> {
        Endpoint* const ends[] = {&pair.first(), &pair.second()};
        (void)harness.progress();
        for (const size_t side : {0u, 1u}) {
          if (sent[side]) continue;
          TUTTI_ASSIGN(sent[side], ends[side]->send(message.data(), bytes, callNumber(round)));
        }
        return sent[0] && sent[1];
      });
      REQUIRE(all.status().message() == "");
      REQUIRE(*all);
      for (Endpoint* end : {&pair.first(), &pair.second()}) {
        REQUIRE(*receiveExpected(harness, *end, out, round));
        CHECK(out == message);
      }
    }
  });
}

TEST_CASE("an endpoint's ends on two threads carry both directions") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.threads() || !harness.hasTwoEnds()) return;
    const auto messages = randomMessages(7, 300, pair.first().slotBytes(), pair.first().maxDirectBytes());
    const auto rank = [&](int number, Endpoint& endpoint) -> std::string {
      for (const bool sends : {number == 0, number != 0}) {
        Sender sender(endpoint, messages, 7);
        Receiver receiver(endpoint, messages, 7);
        const std::string complaint = driveAlone(harness, number, sends ? static_cast<Actor&>(sender) : receiver);
        if (!complaint.empty()) return complaint;
      }
      return "";
    };
    std::string complaint;
    std::thread other([&] { complaint = rank(1, pair.second()); });
    const std::string mine = rank(0, pair.first());
    other.join();
    CHECK(mine == "");
    CHECK(complaint == "");
  });
}

TEST_CASE("a message of another call or size is refused with both calls, and stays refused") {
  const Fingerprint reduce = makeFingerprint({.sequence = 17, .kind = 0, .dtype = 7, .count = 100});
  const Fingerprint broadcast = makeFingerprint({.sequence = 17, .kind = 1, .dtype = 7, .root = 2, .count = 100});
  for (const bool staged : {false, true}) {
    for (const Take take : {Take::Receive, Take::Peek, Take::Parts}) {
      struct Case {
        size_t sent, expected;
        Fingerprint call;
      };
      for (const Case& c : {Case{100, 100, broadcast}, Case{100, 100, reduce}, Case{40, 100, reduce},
                            Case{100, 40, reduce}, Case{0, 100, reduce}, Case{100, 0, reduce}}) {
        const bool same = c.call == reduce && c.sent == c.expected;
        const std::string section = cat(staged ? "staged " : "",
                                        take == Take::Peek    ? "peek "
                                        : take == Take::Parts ? "parts "
                                                              : "receive ",
                                        c.sent, " for ", c.expected, same ? " same" : "", " ");
        for (const Row& row : rows()) {
          DYNAMIC_SECTION(section << row.name) {
            const auto harness = row.make();
            Result<Pair> pair = harness->open(0);
            REQUIRE(pair.ok());
            const auto message = pattern(c.sent, 1);
            REQUIRE(*poll(*harness, [&] { return pair->first().send(message.data(), c.sent, reduce); }));
            for (int i = 0; staged && i < 50; ++i) {
              harness->pump();
              (void)harness->progress();
            }
            std::vector<std::byte> out(c.expected);
            const auto ask = [&]() -> Result<bool> {
              const Expect expect{c.expected, c.call};
              if (take == Take::Receive) return pair->second().receive(out.data(), expect);
              if (take == Take::Parts) {
                TUTTI_ASSIGN(const std::span<const std::byte> part, pair->second().peekPart(expect));
                return part.data() != nullptr && part.size() == c.expected;
              }
              TUTTI_ASSIGN(const std::byte* data, pair->second().peek(expect));
              return data != nullptr;
            };
            const Result<bool> answer = poll(*harness, ask);
            CHECK(answer.ok() == same);
            if (same) continue;
            CHECK(answer.status().code() == tuttiInvalidUsage);
            CHECK(pair->second().seen() == reduce);
            CAPTURE(answer.status().message());
            CHECK(answer.status().message().find(describeCall(reduce)) != std::string::npos);
            CHECK(answer.status().message().find(describeCall(c.call)) != std::string::npos);
            CHECK(ask().status().message() == answer.status().message());
            CHECK(pair->second().send(message.data(), 0, reduce).status().code() == tuttiInvalidUsage);
          }
        }
      }
    }
  }
}

TEST_CASE("what a peer sent before it closed counts; then its end is an error that names it and stays") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.noticesClose() || !harness.hasTwoEnds()) return;
    const auto message = pattern(200, 1);
    REQUIRE(*poll(harness, [&] { return pair.a->send(message.data(), 200, callNumber(1)); }));
    pair.a.reset();
    for (int i = 0; i < 20; ++i) {
      harness.pump();
      (void)harness.progress();
    }
    std::vector<std::byte> out(200);
    REQUIRE(*receiveExpected(harness, *pair.b, out, 1));
    CHECK(out == message);
    const Result<bool> next = receiveExpected(harness, *pair.b, out, 2);
    CHECK(next.status().code() == tuttiRemoteError);
    CHECK(next.status().message().find("rank 0") != std::string::npos);
    CHECK(pair.b->receive(out.data(), {200, callNumber(2)}).status().message() == next.status().message());
    CHECK(pair.b->peek({200, callNumber(2)}).status().message() == next.status().message());
    CHECK(pair.b->send(out.data(), 200, callNumber(2)).status().message() == next.status().message());
    CHECK(pair.b->reserve().status().message() == next.status().message());
  });
}

TEST_CASE("a sender finds out that its peer has closed") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    if (!harness.noticesClose() || !harness.hasTwoEnds()) return;
    pair.a.reset();
    const auto message = pattern(pair.b->slotBytes(), 1);
    const Result<bool> sent = poll(harness, [&]() -> Result<bool> {
      TUTTI_TRY(asStatus(pair.b->send(message.data(), message.size(), callNumber(1))));
      return false;  // never satisfied: only an error ends it
    });
    CHECK(sent.status().code() == tuttiRemoteError);
    CHECK(sent.status().message().find("rank 0") != std::string::npos);
  });
}

TEST_CASE("pending() tells of a message that nobody asked for, and of no other") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    CHECK(!pair.second().pending());
    const auto message = pattern(300, 5);
    REQUIRE(*poll(harness, [&] { return pair.first().send(message.data(), 300, callNumber(5)); }));
    const Result<bool> found = poll(harness, [&]() -> Result<bool> {
      if (!harness.showsArrival()) (void)harness.progress();
      return pair.second().pending().has_value();
    });
    REQUIRE(*found);
    CHECK(*pair.second().pending() == callNumber(5));
    (void)harness.progress();
    CHECK(pair.second().pending() == callNumber(5));
    std::vector<std::byte> out(300);
    REQUIRE(*receiveExpected(harness, pair.second(), out, 5));
    CHECK(!pair.second().pending());
  });
}

TEST_CASE("lanes do not depend on each other") {
  forEachTransport([&](Harness& harness, Pair& pair) {
    Result<Pair> other = harness.open(1);
    REQUIRE(other.ok());
    // Lane 0 is full and nobody reads it.
    const auto message = pattern(pair.first().slotBytes(), 0);
    for (int i = 0; i < 100; ++i) {
      const Result<bool> sent = pair.first().send(message.data(), message.size(), callNumber(0));
      REQUIRE(sent.ok());
      if (!*sent) break;
    }
    const auto messages = randomMessages(11, 60, other->first().slotBytes(), other->first().maxDirectBytes());
    Sender sender(other->first(), messages, 11);
    Receiver receiver(other->second(), messages, 11);
    Actor* const actors[] = {&sender, &receiver};
    CHECK(drive(harness, actors) == "");
  });
}

TEST_CASE("a sleeping rank is woken by a message and by room") {
  constexpr int kSleepUs = 20'000'000;  // a wake-up that is missed shows as a test that takes this long
  forEachTransport([&](Harness& harness, Pair& pair) {
    Sleeper* const sleeper = harness.sleeper(1);
    if (sleeper == nullptr) return;
    const auto sleepUntil = [&](auto ready) -> int64_t {
      const int64_t begin = nowNs();
      while (nowNs() - begin < kSleepUs * int64_t{1000}) {
        if (*ready()) return 0;
        sleeper->prepare();
        if (*ready()) {
          sleeper->cancel();
          return 0;
        }
        sleeper->sleep(kSleepUs);
      }
      return nowNs() - begin;
    };
    std::vector<std::byte> out(pair.second().slotBytes());
    const auto small = pattern(100, 1);
    std::thread message([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      (void)pair.first().send(small.data(), 100, callNumber(1)).ok();
    });
    const int64_t waited = sleepUntil([&] { return pair.second().receive(out.data(), {100, callNumber(1)}); });
    message.join();
    CHECK(waited == 0);

    constexpr uint32_t kMessages = 40;  // more than fits anywhere
    const auto full = pattern(out.size(), 2);
    std::string complaint;
    std::thread reader([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Receiver receiver(pair.first(), std::vector<Message>(kMessages, Message{full.size()}), 1, 2);
      complaint = driveAlone(harness, 0, receiver);
    });
    int64_t slept = 0;
    for (uint32_t i = 0; i < kMessages; ++i) {
      const auto next = pattern(full.size(), 2 + i);
      slept += sleepUntil([&] { return pair.second().send(next.data(), next.size(), callNumber(2 + i)); });
    }
    reader.join();
    CHECK(slept == 0);
    CHECK(complaint == "");
  });
}
