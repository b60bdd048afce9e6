// Probes of links between hosts, over wires in virtual time.
#include "src/calibrate/host_link.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>

#include "transport/tcp/entry.hpp"

using namespace tutti;

namespace {

struct Clock {
  int64_t ns = 0;
};

/// One direction: what is written passes a shaper that lets a burst through, takes its time, and comes out whole.
struct Wire {
  Clock& clock;
  double gbps;
  int64_t latencyNs;
  double burst;
  double tokens = burst;
  int64_t filledNs = 0, freeNs = 0;
  size_t buffered = 0;  // written and not come out
  struct Message {
    std::vector<std::byte> bytes;
    int64_t comesNs;
  };
  std::deque<Message> messages;

  static constexpr size_t kBufferBytes = 4 << 20;
  static constexpr double kLineGBps = 100;

  bool write(const std::byte* data, size_t bytes) {
    if (buffered + bytes > kBufferBytes) return false;
    const int64_t startNs = std::max(clock.ns, freeNs);
    tokens = std::min(burst, tokens + static_cast<double>(startNs - filledNs) * gbps);
    tokens -= static_cast<double>(bytes);
    filledNs = startNs;
    const double late = tokens < 0 ? -tokens / gbps : 0;
    freeNs = startNs + static_cast<int64_t>(std::max(late, static_cast<double>(bytes) / kLineGBps));
    buffered += bytes;
    messages.push_back({{data, data + bytes}, freeNs + latencyNs});
    return true;
  }
  bool read(std::byte* data, size_t bytes) {
    if (messages.empty() || messages.front().comesNs > clock.ns) return false;
    REQUIRE(messages.front().bytes.size() == bytes);
    std::memcpy(data, messages.front().bytes.data(), bytes);
    buffered -= bytes;
    messages.pop_front();
    return true;
  }
};

class WireEnd : public Endpoint {
 public:
  WireEnd(Wire& out, Wire& in, size_t slotBytes) : out_(out), in_(in), slotBytes_(slotBytes) {}
  size_t slotBytes() const override { return slotBytes_; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint&) override {
    return out_.write(data, bytes);
  }
  Result<bool> receive(std::byte* dst, const Expect& expect) override { return in_.read(dst, expect.bytes); }
  Result<std::span<std::byte>> reserve() override { return internalError("not used"); }
  Result<bool> commit(size_t, const Fingerprint&) override { return internalError("not used"); }
  Result<const std::byte*> peek(const Expect&) override { return internalError("not used"); }
  void release() override {}

 private:
  Wire& out_;
  Wire& in_;
  size_t slotBytes_;
};

struct Probed {
  HostLinkFigures figures;
  int64_t ns;  // that it took
};

struct Ends {
  int64_t lookNs = 500;        // between two looks of both
  int away = 1;                // of every this many looks of the far end, it gets a core for one
  int64_t awayNs = INT64_MAX;  // until then
  double answersGBps = 0;      // of the way back; 0: the same
  int64_t mayStreamNs = 0;     // from then on
  int runs = 1;                // one after the other between the same ends; the last one counts
};

Probed probe(double gbps, double latencyUs, double burst, size_t slotBytes, const Ends& ends = {}) {
  const auto [lookNs, away, awayNs, answersGBps, mayStreamNs, runs] = ends;
  Clock clock;
  const auto latencyNs = static_cast<int64_t>(latencyUs * 1e3);
  Wire there{clock, gbps, latencyNs, burst}, back{clock, answersGBps > 0 ? answersGBps : gbps, latencyNs, burst};
  WireEnd near(there, back, slotBytes), far(back, there, slotBytes);
  BusyClock nearBusy, farBusy;
  Probed probed{};
  for (int run = 0; run < runs; ++run) {
    HostLinkProbe prober(near);
    HostLinkEcho echo(far);
    ProbeStep measured = ProbeStep::Waits, echoed = ProbeStep::Waits;
    for (; measured != ProbeStep::Done || echoed != ProbeStep::Done; clock.ns += lookNs) {
      REQUIRE(clock.ns < 10'000'000'000);
      measured =
          prober.step(nearBusy.look(clock.ns, false, measured == ProbeStep::Moved), clock.ns >= mayStreamNs).value();
      if (clock.ns < awayNs && clock.ns / lookNs % away != 0) continue;
      echoed = echo.step(farBusy.look(clock.ns, false, echoed == ProbeStep::Moved)).value();
    }
    probed = {prober.figures(), clock.ns};
  }
  return probed;
}

Calibration withNominal(double latencyUs, double gbps) {
  Calibration c;
  c.at(kTcpRemote, Protocol::Slots) = {.available = true, .cost = {latencyUs, gbps}, .mostBytes = 1 << 17};
  return c;
}

}  // namespace

TEST_CASE("a probe finds what a link between hosts carries, also behind a burst, and how long it takes") {
  struct Row {
    double gbps, latencyUs, burst;
  };
  for (const Row& row : {Row{0.0125, 50, 256e3}, Row{0.125, 20, 0}, Row{0.125, 20, 256e3}, Row{0.125, 200, 256e3},
                         Row{1.25, 10, 256e3}, Row{1.25, 40, 0}, Row{3, 10, 0}}) {
    for (const size_t slotBytes : {size_t{5000}, size_t{128} << 10, size_t{512} << 10}) {
      CAPTURE(row.gbps, row.latencyUs, row.burst, slotBytes);
      const Probed probed = probe(row.gbps, row.latencyUs, row.burst, slotBytes);
      CHECK(probed.figures.latencyUs >= row.latencyUs);
      CHECK(probed.figures.latencyUs < row.latencyUs + 2);
      CHECK(probed.figures.bandwidthGBps > 0.9 * row.gbps);
      CHECK(probed.figures.bandwidthGBps < 1.1 * row.gbps);
      CHECK(probed.ns < 60 * 1'000'000);
    }
  }
}

TEST_CASE("what answers wait for on their way back says nothing of the link") {
  constexpr double kAnswerBytes = 16;
  for (const double everyNs : {0.55e6, 0.6e6, 0.65e6}) {  // later and later: pieces come every 0.52 ms
    CAPTURE(everyNs);
    const Probed probed = probe(0.125, 20, 0, 128 << 10, {.answersGBps = kAnswerBytes / everyNs});
    CHECK(probed.figures.bandwidthGBps > 0.95 * 0.125);
    CHECK(probed.figures.bandwidthGBps < 1.05 * 0.125);
  }
}

TEST_CASE("a stream that may not begin yet waits, and measures as well then") {
  const Probed held = probe(0.125, 20, 256e3, 128 << 10, {.mayStreamNs = 30'000'000});
  CHECK(held.ns > 30'000'000);
  CHECK(held.figures.bandwidthGBps > 0.9 * 0.125);
  CHECK(held.figures.bandwidthGBps < 1.1 * 0.125);
}

TEST_CASE("a link may be measured again between the same ends") {
  const Probed again = probe(0.125, 20, 0, 128 << 10, {.runs = 3});
  CHECK(again.figures.latencyUs == Approx(21).margin(1));
  CHECK(again.figures.bandwidthGBps == Approx(0.125).epsilon(0.1));
}

TEST_CASE("where the window is the limit no bandwidth is said") {
  const Probed far = probe(1.25, 5000, 0, 128 << 10);  // 12 MB would have to be under way
  CHECK(far.figures.latencyUs >= 5000);
  CHECK(far.figures.bandwidthGBps == 0);
}

TEST_CASE("where the core is the limit no bandwidth is said") {
  constexpr int64_t kOthersNs = 60'000;  // others are on it between two looks
  CHECK(probe(1.25, 10, 0, 128 << 10, {.lookNs = kOthersNs}).figures.bandwidthGBps == 0);
  CHECK(probe(0.125, 10, 0, 128 << 10, {.lookNs = 10'000}).figures.bandwidthGBps > 0.1);
}

TEST_CASE("where the other end's core is the limit neither a bandwidth is said nor that it is far") {
  const Probed starved = probe(1.25, 10, 0, 128 << 10, {.lookNs = 1'000, .away = 3'000});  // a look every 3 ms
  CHECK(toText(starved.figures) == "");
  const Probed far = probe(1.25, 1'000, 0, 128 << 10, {.lookNs = 1'000});
  CHECK(far.figures.latencyUs == Approx(1'000).epsilon(0.01));
}

TEST_CASE("a stream goes on until there is a while in which both ends have their cores") {
  const Probed late = probe(0.125, 10, 256e3, 128 << 10, {.lookNs = 1'000, .away = 3'000, .awayNs = 20'000'000});
  CHECK(late.figures.bandwidthGBps > 0.1);
  CHECK(late.figures.bandwidthGBps < 0.14);
  CHECK(probe(0.125, 10, 256e3, 128 << 10, {.lookNs = 1'000, .away = 3'000}).ns < 100 * 1'000'000);
}

TEST_CASE("time is spent busy after a look that moved something, and between looks that are far from each other") {
  struct Row {
    int64_t afterNs;
    bool rested, moved;
    int64_t busyNs;
  };
  BusyClock busy;
  int64_t now = 1'000'000, sum = 0;
  busy.look(now, false, false);
  for (const Row& row :
       {Row{5'000, false, true, 5'000}, Row{5'000, false, false, 0}, Row{50'000, false, false, 50'000},
        Row{150'000, true, false, 0}, Row{3'000'000, true, false, 3'000'000}, Row{150'000, true, true, 150'000}}) {
    CAPTURE(row.afterNs, row.rested, row.moved);
    const ProbeTime time = busy.look(now += row.afterNs, row.rested, row.moved);
    CHECK(time.ns == now);
    CHECK(time.busyNs == (sum += row.busyNs));
  }
}

TEST_CASE("a slow link is not left with much to drain") {
  CHECK(probe(0.00125, 50, 0, 128 << 10).ns < 150 * 1'000'000);  // 10 Mbit/s: 13 ms for a piece
  CHECK(probe(0.0125, 50, 256e3, 128 << 10).ns < 60 * 1'000'000);
}

TEST_CASE("figures of a link come back from their text, and others are refused") {
  CHECK(toText(HostLinkFigures{}).empty());
  CHECK(!parseHostLink("").value());
  for (const HostLinkFigures& figures : {HostLinkFigures{12.5, 0.117}, HostLinkFigures{3, 0}}) {
    CHECK(parseHostLink(toText(figures)).value() == figures);
  }
  for (const char* text : {" ", "1", "1 2 3", "a 1", "1 -1", "nan 1", "1 inf", "1 2 "}) {
    CAPTURE(text);
    CHECK(!parseHostLink(text).ok());
  }
}

TEST_CASE("links between hosts count as the narrowest and nearest, and noise changes nothing") {
  using Links = std::vector<HostLinkFigures>;
  const HostLinkFigures common = commonOf(Links{{10.5, 1.2}, {700, 0}, {11, 0.12}, {0, 0.9}});
  CHECK(common.latencyUs == Approx(10.5).epsilon(0.05));
  CHECK(common.bandwidthGBps == Approx(0.12).epsilon(0.05));
  CHECK(commonOf(Links{{12.1, 0.1201}}) == commonOf(Links{{12, 0.12}}));
  CHECK(commonOf(Links{{14, 0}}).bandwidthGBps == 0);
  CHECK(commonOf(Links{}) == HostLinkFigures());
}

TEST_CASE("a link that seems much slower than most is odd, and the better of two runs counts") {
  using Links = std::vector<HostLinkFigures>;
  CHECK(someIsOdd(Links{{8, 0.115}, {9, 0.029}, {8, 0.11}, {9, 0.112}}));
  CHECK(someIsOdd(Links{{8, 0.115}, {9, 0.05}}));
  CHECK_FALSE(someIsOdd(Links{{8, 0.115}, {9, 0.105}, {8, 0}, {0, 0.11}}));  // a link without a rate is left out
  CHECK_FALSE(someIsOdd(Links{{8, 0}, {9, 0}}));
  CHECK_FALSE(someIsOdd(Links{}));
  CHECK(betterOf({8, 0.029}, {30, 0.11}) == HostLinkFigures{8, 0.11});
  CHECK(betterOf({0, 0.1}, {30, 0}) == HostLinkFigures{30, 0.1});
  CHECK(betterOf({}, {}) == HostLinkFigures());
}

TEST_CASE("measured figures take the place of nominal ones where they differ by more than noise") {
  struct Row {
    double nominal, measured, expected;
  };
  // Tcp's endpoints carry 3 GB/s at most: a stream that comes near that says nothing of a faster wire.
  for (const Row& row : {Row{1.2, 0.12, 0.12}, Row{1.2, 1.1, 1.2}, Row{1.2, 1.9, 1.9}, Row{12, 2.5, 12},
                         Row{12, 2.0, 2.0}, Row{1.2, 0, 1.2}}) {
    CAPTURE(row.nominal, row.measured);
    Calibration c = withNominal(20, row.nominal);
    applyHostLink({0, row.measured}, kTcpRemote, &c);
    CHECK(c.at(kTcpRemote, Protocol::Slots).cost.bandwidthGBps == Approx(row.expected));
    CHECK(c.at(kTcpRemote, Protocol::Slots).cost.latencyUs == 20);
    CHECK(!c.at(kTcpRemote, Protocol::Inline).available);
  }
}

TEST_CASE("a long way is no more work, and a short one is the nominal one") {
  struct Row {
    double measured, expected;
  };
  for (const Row& row : {Row{0, 20}, Row{6, 20}, Row{160, 20}, Row{600, 600}, Row{5000, 5000}}) {
    CAPTURE(row.measured);
    Calibration c = withNominal(20, 1.2);
    applyHostLink({row.measured, 0}, kTcpRemote, &c);
    const LinearCost& cost = c.at(kTcpRemote, Protocol::Slots).cost;
    CHECK(cost.latencyUs == Approx(row.expected));
    CHECK(cost.latencyUs * cost.workShare == Approx(5));
  }
}
