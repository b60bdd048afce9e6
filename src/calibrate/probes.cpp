#include "src/calibrate/probes.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "src/base/caught.hpp"
#include "src/base/log_once.hpp"
#include "src/base/threads.hpp"
#include "src/calibrate/cores.hpp"
#include "src/calibrate/disturbance.hpp"
#include "src/calibrate/local_exchange.hpp"
#include "src/exec/plan.hpp"
#include "transport/services.hpp"

namespace tutti {
namespace {

/// What streams move: bytes that go and bytes that come, of both ends.  The first end alone sends where one does.
/// Shared, and touched by both cores, for its page faults take time.
struct StreamMemory {
  std::array<std::vector<std::byte>, 2> go, come;
  /// Takes the memory.  Call before the first stream.
  void take() {
    if (!come[0].empty() && !come[1].empty()) return;
    const auto touch = [this](size_t me) { go[me].resize(farBytes(me == 1)), come[me].resize(farBytes(me == 0)); };
    const auto part = [&](size_t me) { return [&touch, me] { return touch(me), Status(); }; };
    const auto both = runTogether("measuring links", {part(0), part(1)});
    if (!both.ok() || come[0].empty() || come[1].empty()) touch(0), touch(1);  // no thread, or no memory, which it says
  }
};

/// Two ranks and the endpoint between them; the second rank echoes from a thread of its own while a probe runs.
class ProbePair {
 public:
  /// Null: the transport makes no link between such ranks here.
  static std::shared_ptr<ProbePair> make(const TransportEntry& entry, bool oneProcess,
                                         std::shared_ptr<StreamMemory> streamMemory,
                                         std::shared_ptr<std::atomic<bool>> lacksThreads) {
    auto pair = std::make_shared<ProbePair>();
    pair->streamMemory_ = std::move(streamMemory);
    pair->lacksThreads_ = std::move(lacksThreads);
    for (int rank = 0; rank < 2; ++rank) {
      Result<std::unique_ptr<Transport>> made = pair->transport(entry, rank, oneProcess);
      if (!made.ok()) return nullptr;
      pair->transports_[static_cast<size_t>(rank)] = std::move(made).value();
    }
    const Result<LinkProfile> link = pair->transports_[0]->reach(infoOf(0, oneProcess), infoOf(1, oneProcess));
    if (!link.ok()) return nullptr;
    pair->link_ = *link;
    return pair;
  }

  /// Ends that close may wait for each other.
  ~ProbePair() {
    if (endpoints_[0] == nullptr || endpoints_[1] == nullptr) return;
    const auto end = [this](size_t rank) {
      endpoints_[rank].reset();
      return Status();
    };
    // Without a thread they wait for each other as long as they would for a peer that is gone.
    (void)caught([&] {
      return asStatus(runTogether("the end of a measured link", {[&] { return end(0); }, [&] { return end(1); }}));
    });
  }

  const LinkProfile& link() const { return link_; }

  bool connect() {
    std::array<PendingEndpoint, 2> opening;
    for (size_t rank = 0; rank < 2; ++rank) {
      opening[rank] = transports_[rank]->beginConnect(static_cast<int>(1 - rank), transports_[1 - rank]->address(), 0);
    }
    const auto bothUp = [&]() -> Result<bool> {
      for (size_t rank = 0; rank < 2; ++rank) {
        if (endpoints_[rank] != nullptr) continue;
        TUTTI_ASSIGN(endpoints_[rank], opening[rank]->poll());
      }
      return endpoints_[0] != nullptr && endpoints_[1] != nullptr;
    };
    return awaitValue(bothUp, Deadline::inMs(1000), "both probes").ok();
  }

  size_t slotBytes() const { return endpoints_[0]->slotBytes(); }
  size_t inlineBytes() const { return endpoints_[0]->inlineBytes(); }
  bool offers() const { return endpoints_[0]->maxDirectBytes() > 0; }

  /// One-way time in microseconds, of the better tries; negative if something failed.  As much comes back.
  double oneWayUs(size_t bytes, bool direct) {
    return pingPongUs(bytes, direct, bytes <= kSmallBytes ? kRoundsOfSmall : kRounds, &ours_, &theirs_);
  }

  /// LinkCost::aloneUs of `bytes`.  Negative if something failed.
  double aloneUs(size_t bytes, bool direct) {
    // The first messages meet with pages that nobody has touched.
    (void)pingPongUs(bytes, direct, static_cast<int>(std::clamp<size_t>(kNearBytes / bytes, 2, kRoundsOfSmall)),
                     &oursCome_, &theirsCome_);
    return pingPongUs(bytes, direct, bytes <= kSmallBytes ? kRoundsOfSmall : kRounds, &oursCome_, &theirsCome_);
  }

  /// The least that a message through the endpoint takes in microseconds where this thread has both ends, from and to
  /// memory that is near, but not in its first cache; negative if something failed.
  double hereUs(size_t bytes, bool direct) {
    begin();
    std::vector<double> us;
    const int together = bytes <= kSmallBytes ? 16 : 1;  // of which one takes no longer than looking at the clock
    for (int i = 0; i < kRounds && !failed_; ++i) {
      const int64_t start = nowNs();
      for (int message = 0; message < together; ++message) {
        const size_t at = (hereAt_ += bytes + 64) % (kNearBytes - bytes + 1);
        Request request = 0;
        wait([&]() -> Result<bool> {
          if (direct) {
            TUTTI_ASSIGN(request, endpoints_[0]->postSend(ours_.data() + at, bytes, {}));
            return request != 0;
          }
          const Result<bool> sent = endpoints_[0]->send(ours_.data() + at, bytes, {});
          if (sent.ok() && !*sent) (void)transports_[1]->progress();  // it may be waiting for that end
          return sent;
        });
        wait([&] { return endpoints_[1]->receive(theirs_.data() + at, {bytes, {}}); });
        if (direct) wait([&] { return endpoints_[0]->test(request); });
      }
      us.push_back(static_cast<double>(nowNs() - start) / 1e3 / together);
    }
    return failed_ ? -1 : *std::ranges::min_element(us);
  }

  /// LinkCost::freshGBps, while both ends write and read at once.  Negative if something failed.
  double freshGBps() {
    streamMemory_->take();
    begin();
    const OnThisCore stay;
    std::vector<double> us, alone;
    us.reserve(kRounds);
    together(
        [&] {
          for (int i = 0; i < kRounds && !failed_; ++i) us.push_back(rewriteAndRead(0));
        },
        [&] {
          for (int i = 0; i < kRounds && !failed_; ++i) rewriteAndRead(1);
        });
    for (int i = 0; i < kRounds; ++i) alone.push_back(rewrite(0));  // from the second on nobody else has it
    return failed_ ? -1 : static_cast<double>(kFreshBytes) / 1e3 / std::max(median(us) - median(alone), 1e-3);
  }

  /// GB/s each way while `bytes` pass, one way or both ways, as an executor would move them: the best of some tries, of
  /// which a busy machine gets fewer.  Negative if something failed.
  double streamGBps(size_t bytes, bool bothWays, bool direct) {
    streamMemory_->take();
    begin();
    const OnThisCore stay;
    std::vector<double> gbps;
    gbps.reserve(kMostStreams);
    const auto echo = [&] {
      while (meet(1, true)) {
        pump(1, bytes, bothWays, true, direct);
        meet(1, true);
      }
    };
    const int64_t begin = nowNs();
    const auto more = [&](int tries) {
      const int least = link_.systemCalls ? kLeastOfSystem : kLeastStreams;
      return tries < least || (tries < kMostStreams && nowNs() - begin < kStreamsNs);
    };
    const auto tell = [&] {
      for (int tries = 0;; ++tries) {
        const bool again = more(tries);
        if (!meet(0, again) || !again) break;
        const int64_t start = nowNs();
        pump(0, bytes, true, bothWays, direct);
        meet(0, true);
        gbps.push_back(static_cast<double>(bytes) / static_cast<double>(nowNs() - start));
      }
    };
    together(tell, echo);
    return failed_ ? -1 : *std::ranges::max_element(gbps);
  }

 private:
  static constexpr int kRounds = 24, kRoundsOfSmall = 100;
  static constexpr int kLeastStreams = 3, kMostStreams = 40;
  static constexpr int kLeastOfSystem = 2;  // where the kernel copies, which varies less and takes long
  static constexpr int64_t kStreamsNs = 3 * kMs;
  static constexpr int64_t kLongestProbeNs = 200 * kMs, kLongestMessageNs = 50 * kMs;
  static constexpr size_t kMostBytes = 1 << 20;
  static constexpr size_t kSliceBytes = 128 << 10;
  static constexpr size_t kSmallBytes = 1 << 10;
  /// Written, read and read into by each end, and near.
  static constexpr size_t kFreshBytes = 128 << 10;

  /// One end's part on this thread, the other's on a core of its own meanwhile.
  template <class Ours, class Theirs>
  void together(const Ours& ours, const Theirs& theirs) {
    if (failed_) return;
    const auto both = runTogether("measuring links", {[&] {
                                                        ours();
                                                        return Status();
                                                      },
                                                      [&] {
                                                        leaveCore();
                                                        theirs();
                                                        return Status();
                                                      }});
    if (!both.ok()) {
      *lacksThreads_ = true;
      TUTTI_WARN_ONCE("plan", "a link is not measured, and counts as built-in figures say: ", both.status().text());
    }
    if (!both.ok() || !(*both)[0].ok() || !(*both)[1].ok()) failed_ = true;
  }

  double pingPongUs(size_t bytes, bool direct, int rounds, std::vector<std::byte>* oursCome,
                    std::vector<std::byte>* theirsCome) {
    begin();
    const OnThisCore stay;
    std::vector<double> us;
    us.reserve(static_cast<size_t>(rounds));
    const auto echo = [&] {
      for (int i = 0; i < rounds && !failed_; ++i) {
        take(*endpoints_[1], theirsCome, bytes);
        give(*endpoints_[1], theirs_, bytes, direct);
      }
    };
    const auto call = [&] {
      for (int i = 0; i < rounds && !failed_; ++i) {
        const int64_t start = nowNs();
        give(*endpoints_[0], ours_, bytes, direct);
        take(*endpoints_[0], oursCome, bytes);
        us.push_back(static_cast<double>(nowNs() - start) / 2e3);
      }
    };
    together(call, echo);
    return failed_ ? -1 : lowerQuartile(std::move(us));
  }

  static double lowerQuartile(std::vector<double> all) {
    if (all.empty()) return -1;
    const auto quarter = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4);
    std::nth_element(all.begin(), quarter, all.end());
    return *quarter;
  }
  static double median(std::vector<double> all) {
    if (all.empty()) return -1;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
  }

  /// Two ranks that the transport takes for one process, or for two.
  static PeerInfo infoOf(int rank, bool oneProcess) {
    return {
        .rank = rank, .processId = oneProcess ? 1 : static_cast<uint64_t>(rank) + 1, .pid = getpid(), .uid = getuid()};
  }

  Result<std::unique_ptr<Transport>> transport(const TransportEntry& entry, int rank, bool oneProcess) {
    return entry.create({.self = infoOf(rank, oneProcess),
                         .nRanks = 2,
                         .lanes = 1,
                         .sliceBytes = kSliceBytes,
                         .descriptors = descriptors_,
                         .streams = streams_});
  }

  void give(Endpoint& endpoint, std::vector<std::byte>& data, size_t bytes, bool direct) {
    Request request = 0;
    wait([&]() -> Result<bool> {
      if (!direct) return endpoint.send(data.data(), bytes, {});
      TUTTI_ASSIGN(request, endpoint.postSend(data.data(), bytes, {}));
      return request != 0;
    });
    if (direct) wait([&] { return endpoint.test(request); });
  }
  void take(Endpoint& endpoint, std::vector<std::byte>* data, size_t bytes) {
    wait([&] { return endpoint.receive(data->data(), {bytes, {}}); });
  }

  /// Microseconds that an end takes to write anew what it sends.
  double rewrite(size_t me) {
    const int64_t start = nowNs();
    std::memset(streamMemory_->go[me].data(), ++written_[me], kFreshBytes);
    return static_cast<double>(nowNs() - start) / 1e3;
  }
  /// And the other end to read it, meanwhile.
  double rewriteAndRead(size_t me) {
    meet(me, true);
    const int64_t start = nowNs();
    (void)rewrite(me);
    pump(me, kFreshBytes, true, true, true);
    meet(me, true);
    return static_cast<double>(nowNs() - start) / 1e3;
  }

  /// Both ends have come here.  What the other end said of itself; false if something failed.
  bool meet(size_t me, bool say) {
    std::byte token{say};
    wait([&] { return endpoints_[me]->send(&token, 1, {}); });
    wait([&] { return endpoints_[me]->receive(&token, {1, {}}); });
    return !failed_ && token != std::byte{0};
  }
  void pump(size_t me, size_t bytes, bool sends, bool receives, bool direct) {
    Endpoint& endpoint = *endpoints_[me];
    std::byte* from = streamMemory_->go[me].data();
    std::byte* to = streamMemory_->come[me].data();
    const size_t slice = std::min(bytes, direct ? kPullBytes : endpoint.slotBytes());  // as an executor cuts them
    size_t gone = sends ? 0 : bytes, come = receives ? 0 : bytes;
    Request request = 0;
    const auto send = [&]() -> Result<bool> {
      const size_t part = std::min(slice, bytes - gone);
      if (!direct) return endpoint.send(from + gone, part, {});
      TUTTI_ASSIGN(const Request offered, endpoint.postSend(from + gone, part, {}));
      if (offered != 0) request = offered;
      return offered != 0;
    };
    wait([&]() -> Result<bool> {
      if (gone < bytes) {
        TUTTI_ASSIGN(const bool sent, send());
        if (sent) gone = std::min(bytes, gone + slice);
      }
      if (come < bytes) {
        TUTTI_ASSIGN(const bool got, endpoint.receive(to + come, {std::min(slice, bytes - come), {}}));
        if (got) come = std::min(bytes, come + slice);
      }
      return gone == bytes && come == bytes;
    });
    if (request != 0) wait([&] { return endpoint.test(request); });
  }

  /// Of every probe.  On a machine that is too busy it would take longer than its figures are worth.  A pair that has
  /// failed once stays so: a message of another size must not follow one that is half sent.
  void begin() { probeEndNs_ = nowNs() + kLongestProbeNs; }

  template <class Attempt>
  void wait(Attempt attempt) {
    const int64_t endNs = std::min(nowNs() + kLongestMessageNs, probeEndNs_);
    for (int round = 1; !failed_; ++round) {
      const Result<bool> done = attempt();
      if (!done.ok() || (round % 64 == 0 && nowNs() > endNs)) failed_ = true;
      if (!done.ok() || *done) return;
      if (round % 64 == 0) sched_yield();  // there may be one core only
    }
  }

  LocalDescriptors descriptors_;
  LocalStreams streams_;
  LinkProfile link_;
  std::array<std::unique_ptr<Transport>, 2> transports_;
  std::array<std::unique_ptr<Endpoint>, 2> endpoints_;  // before the transports they belong to
  std::vector<std::byte> ours_ = std::vector<std::byte>(kMostBytes);
  std::vector<std::byte> theirs_ = std::vector<std::byte>(kMostBytes);
  std::vector<std::byte> oursCome_ = std::vector<std::byte>(kNearBytes);
  std::vector<std::byte> theirsCome_ = std::vector<std::byte>(kNearBytes);
  std::shared_ptr<StreamMemory> streamMemory_;
  std::array<unsigned char, 2> written_ = {};
  size_t hereAt_ = 0;
  std::atomic<bool> failed_{false};
  int64_t probeEndNs_ = 0;  // set before the other thread is
  std::shared_ptr<std::atomic<bool>> lacksThreads_;
};

}  // namespace

LinkProbes machineProbes(TransportTable table) {
  LinkProbes probes;
  probes.lacksThreads = std::make_shared<std::atomic<bool>>(false);
  const auto streamMemory = std::make_shared<StreamMemory>();
  std::shared_ptr<ProbePair> first;  // of the transport
  const auto add = [&](const TransportEntry& entry, bool oneProcess) {
    const std::shared_ptr<ProbePair> pair = ProbePair::make(entry, oneProcess, streamMemory, probes.lacksThreads);
    if (pair == nullptr || probes.has(pair->link()) || !pair->connect()) return;
    const bool streams = !pair->link().systemCalls;
    const auto probe = [&](Protocol protocol, uint64_t mostBytes, bool direct) {
      LinkProbes::Entry& one = probes.at(pair->link(), protocol);
      one.probe = [pair, direct](size_t bytes) { return pair->oneWayUs(bytes, direct); };
      if (streams) one.alone = [pair, direct](size_t bytes) { return pair->aloneUs(bytes, direct); };
      one.mostBytes = mostBytes;
      if (streams) one.here = [pair, direct](size_t bytes) { return pair->hereUs(bytes, direct); };
      if (direct) one.fresh = [pair] { return pair->freshGBps(); };
      if (protocol == Protocol::Inline) return;  // no room for a stream
      one.stream = [pair, direct](size_t bytes, bool bothWays) { return pair->streamGBps(bytes, bothWays, direct); };
    };
    if (first == nullptr) first = pair;
    if (first != pair && first->link().mapped && pair->link().mapped) {
      // Ranks of one process and of two use the same memory for all but direct messages.
      probes.at(pair->link(), Protocol::Direct);
      probes.links.back().sharesChannels = first->link().key;
    } else {
      if (pair->inlineBytes() > 0) probe(Protocol::Inline, pair->inlineBytes(), false);
      probe(Protocol::Slots, pair->slotBytes(), false);
    }
    if (pair->offers()) probe(Protocol::Direct, uint64_t{1} << 20, true);
  };
  for (const TransportEntry* entry : table) {
    if (entry->links.empty()) continue;  // joins no two ranks
    first = nullptr;
    for (const bool oneProcess : {false, true}) add(*entry, oneProcess);
  }
  return probes;
}

std::optional<CoreDistance> measureCoreDistance(TransportTable table) {
  for (const TransportEntry* entry : table) {
    if (entry->links.empty() || !entry->sharesMemory()) continue;
    const std::shared_ptr<ProbePair> pair =
        ProbePair::make(*entry, false, nullptr, std::make_shared<std::atomic<bool>>(false));
    if (pair == nullptr || !pair->connect() || pair->inlineBytes() < kMessageSizes[0]) continue;
    const double us = std::min(pair->aloneUs(kMessageSizes[0], false), pair->aloneUs(kMessageSizes[0], false));
    if (us > 0) return CoreDistance{std::string(pair->link().key), us};
  }
  return {};
}

namespace {

/// What `look` gave within the last minute.  Any thread.
template <class T>
class OnceAMinute {
 public:
  T operator()(const std::function<T()>& look) {
    const std::lock_guard lock(mutex_);
    if (!kept_ || nowNs() - sinceNs_ > 60'000 * kMs) {
      kept_ = look();
      sinceNs_ = nowNs();
    }
    return *kept_;
  }

 private:
  std::mutex mutex_;
  std::optional<T> kept_;
  int64_t sinceNs_ = 0;
};

}  // namespace

MachineGlance glanceAtMachine(TransportTable table) {
  static OnceAMinute<double> share;
  static OnceAMinute<std::optional<CoreDistance>> distance;
  return {[] { return share(othersShareNow); },
          [table] { return distance([table] { return measureCoreDistance(table); }); }};
}

}  // namespace tutti
