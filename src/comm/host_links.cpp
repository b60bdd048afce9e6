#include "src/comm/host_links.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/comm.hpp"
#include "src/control/session/interfaces.hpp"

namespace tutti {
namespace {

/// After which a probe gives up: one that goes well takes 25 ms, beside other work 45, and every other one waits for
/// that of its neighbour.  Nobody who has not asked for it waits for long.
constexpr int kMostMs = 120, kMostMsIfAsked = 500;

/// The first rank of every host, by host.
std::vector<int> firstRanks(const std::vector<int>& nodes) {
  std::vector<int> firsts;
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] == static_cast<int>(firsts.size())) firsts.push_back(static_cast<int>(rank));
  }
  return firsts;
}

/// The probes among the hosts of a communicator: who takes part, and this rank's part.
class Ring {
 public:
  Ring(Comm& comm, LinkProbing probing) : comm_(comm), probing_(probing), firsts_(firstRanks(comm.layout().nodes)) {}
  ~Ring() { stayAwake(); }

  /// Whether some host probes the way to the next.
  bool any() const {
    for (size_t host = 0; host < firsts_.size(); ++host)
      if (probes(host)) return true;
    return false;
  }

  /// Of the way from this rank's host to the next; nothing on ranks that have no part.  Errors: why it was not
  /// measured.  Once more only if it came to its end on all ranks.
  Result<HostLinkFigures> run() {
    const auto mine = std::ranges::find(firsts_, comm_.rank());
    cameToItsEnd_ = mine == firsts_.end();
    if (mine == firsts_.end()) return HostLinkFigures();
    const auto host = static_cast<size_t>(mine - firsts_.begin());
    const size_t before = (host + firsts_.size() - 1) % firsts_.size();
    const int mostMs = probing_ == LinkProbing::Always ? kMostMsIfAsked : kMostMs;
    const Deadline deadline = Deadline::inMs(mostMs);
    PendingEndpoint out, in;
    if (probes(host) && out_ == nullptr) out = open(next(host), host);
    if (probes(before) && in_ == nullptr) in = open(before, before);
    sleeper_ = comm_.links().sleeperTo(firsts_[probes(host) ? next(host) : before]);
    std::optional<HostLinkProbe> probe;
    std::optional<HostLinkEcho> echo;
    // Every other stream waits for the one before: TCP is slow to use a wire if its acknowledgements wait behind a
    // stream of the other way, and many streams at once want many cores of hosts that share them.
    bool mayStream = host % 2 == 0 || !probes(before);
    while (!deadline.passed()) {
      TUTTI_ASSIGN(const bool outIsUp, isUp(out, &out_));
      TUTTI_ASSIGN(const bool inIsUp, isUp(in, &in_));
      if (out_ != nullptr && !probe) probe.emplace(*out_);
      if (in_ != nullptr && !echo) echo.emplace(*in_);
      const ProbeTime now = clock_.look(nowNs(), rested_, moved_);
      TUTTI_ASSIGN(const ProbeStep near,
                   probe ? probe->step(now, mayStream) : Result(outIsUp ? ProbeStep::Done : ProbeStep::Waits));
      TUTTI_ASSIGN(const ProbeStep far, echo ? echo->step(now) : Result(inIsUp ? ProbeStep::Done : ProbeStep::Waits));
      mayStream = mayStream || far == ProbeStep::Done;
      cameToItsEnd_ = near == ProbeStep::Done && far == ProbeStep::Done;
      if (cameToItsEnd_) return probe ? probe->figures() : HostLinkFigures();
      if (comm_.watchdog().abortState().ended()) return remoteError(ErrorCode::Aborted, "the communicator has ended");
      moved_ = near == ProbeStep::Moved || far == ProbeStep::Moved;
      rested_ = !moved_ && rest();
      if (moved_) stayAwake();
    }
    if (probe && probe->figures() != HostLinkFigures()) return probe->figures();  // how far it is, say
    return timeoutError(ErrorCode::RankSilent, "no answer within ", mostMs, " ms");
  }
  /// Whether the run came to its end at both ends of this host's links.
  bool cameToItsEnd() const { return cameToItsEnd_; }

 private:
  size_t next(size_t host) const { return (host + 1) % firsts_.size(); }
  const PeerDescriptor& of(size_t host) const {
    return comm_.links().descriptors()[static_cast<size_t>(firsts_[host])];
  }
  /// Whether the host probes the way to the next one.
  bool probes(size_t host) const {
    const size_t to = next(host);
    if (to == host || probing_ == LinkProbing::Always) return to != host;
    const std::optional<LinkProfile> link = comm_.links().linkBetween(firsts_[host], firsts_[to]);
    return link && isUnknown(of(host), of(to), *link);
  }
  /// Of two hosts, each probes the way to the other, so that the last one has a lane of its own.
  PendingEndpoint open(size_t peer, size_t prober) const {
    const int lane = prober + 1 == firsts_.size() ? kProbeLane + 1 : kProbeLane;
    return comm_.links().beginProbe(firsts_[peer], lane);
  }

  /// Whether it is up, or not asked for.
  static Result<bool> isUp(const PendingEndpoint& opening, std::unique_ptr<Endpoint>* endpoint) {
    if (opening == nullptr || *endpoint != nullptr) return true;
    TUTTI_ASSIGN(*endpoint, opening->poll());
    return *endpoint != nullptr;
  }

  /// Whether this rank has slept, until something came or for kRestUs.  One more look comes first, as the sleeper asks.
  bool rest() {
    comm_.links().progress();
    if (sleeper_ == nullptr) {
      constexpr timespec kPause{0, kRestUs * 1000};
      nanosleep(&kPause, nullptr);
      return true;
    }
    if (std::exchange(prepared_, !prepared_)) {
      sleeper_->sleep(kRestUs);
      return true;
    }
    sleeper_->prepare();
    return false;
  }
  void stayAwake() {
    if (std::exchange(prepared_, false)) sleeper_->cancel();
  }

  Comm& comm_;
  const LinkProbing probing_;
  const std::vector<int> firsts_;
  std::unique_ptr<Endpoint> out_, in_;  // until all have measured: what is sent last may be on its way
  Sleeper* sleeper_ = nullptr;
  bool prepared_ = false, rested_ = false, moved_ = false;
  bool cameToItsEnd_ = false;
  BusyClock clock_;
};

/// What all ranks found in a run.
struct Found {
  std::vector<HostLinkFigures> byRank;  // nothing of those that have no part, or could not measure
  bool cameToItsEnd = true;             // on all of them
};

/// One run on every rank, and what they tell each other.
Result<Found> runOnce(Comm& comm, Ring* ring) {
  constexpr char kCutShort = '!';
  const Result<HostLinkFigures> mine = ring->run();
  if (!mine.ok())
    TUTTI_INFO("plan", "rank ", comm.rank(), ": the way to the next host was not measured: ", mine.status().message());
  std::string text = mine.ok() ? toText(*mine) : "";
  if (!ring->cameToItsEnd()) text.insert(text.begin(), kCutShort);
  TUTTI_ASSIGN(const std::vector<std::string> texts, comm.control().allGather(std::move(text), comm.deadline()));
  Found found;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const bool cutShort = texts[rank].starts_with(kCutShort);
    found.cameToItsEnd = found.cameToItsEnd && !cutShort;
    const auto theirs = parseHostLink(std::string_view(texts[rank]).substr(cutShort ? 1 : 0));
    if (!theirs.ok()) return remoteError(ErrorCode::Malformed, "rank ", rank, " sent ", theirs.status().text());
    found.byRank.push_back(theirs->value_or(HostLinkFigures()));
  }
  return found;
}

/// What all ranks have from their parent; none: not all have the same.
std::string inherited(const std::vector<PeerDescriptor>& descriptors) {
  const std::string& first = descriptors.front().hostLinks;
  const bool all = std::ranges::all_of(descriptors, [&](const PeerDescriptor& d) { return d.hostLinks == first; });
  return all ? first : "";
}

std::vector<HostLinkFigures> measuredOf(const std::vector<HostLinkFigures>& byRank) {
  std::vector<HostLinkFigures> measured;
  std::ranges::copy_if(byRank, std::back_inserter(measured), [](const auto& one) { return one != HostLinkFigures(); });
  return measured;
}

void tell(const std::vector<HostLinkFigures>& byRank, const HostLinkFigures& common, int runs, int64_t ms) {
  std::string each;
  for (size_t rank = 0; rank < byRank.size(); ++rank) {
    const HostLinkFigures& one = byRank[rank];
    if (one == HostLinkFigures()) continue;
    char figures[64];
    std::snprintf(figures, sizeof figures, "%.3g %.3g", one.latencyUs, one.bandwidthGBps);
    each += cat(each.empty() ? "" : ", ", "rank ", rank, " ", figures);
  }
  if (each.empty()) {
    TUTTI_INFO("plan", "no link between hosts could be measured in ", ms, " ms: their nominal speed counts");
    return;
  }
  TUTTI_INFO("plan", "links between hosts take ", common.latencyUs, " us and carry ", common.bandwidthGBps,
             " GB/s (us and GB/s from the host of ", each, "), as measured in ", ms, " ms",
             runs > 1 ? ", twice, as one seemed slower than the others" : "");
}

}  // namespace

uint32_t mbpsToOthers(const std::vector<PeerDescriptor>& ranks, const PeerDescriptor& self, uint32_t paths) {
  const auto isOther = [&](const PeerDescriptor& rank) { return rank.network != self.network; };
  return paths > 1 || std::ranges::any_of(ranks, isOther) ? listenMbps(paths) : 0;
}

bool isUnknown(const PeerDescriptor& a, const PeerDescriptor& b, const LinkProfile& link) {
  const bool known = a.pathsMbps > 0 && b.pathsMbps > 0, several = a.paths > 1 && b.paths > 1;
  return a.network != b.network && link.spreadsOverPaths && !known && !several;
}

PathUse pathUse(const Links& links) {
  const std::vector<PeerDescriptor>& ranks = links.descriptors();
  PathUse use{ranks[0].paths, ranks[0].pathsMbps};
  bool leaves = false;
  for (const PeerDescriptor& rank : ranks) {
    use.paths = std::min(use.paths, rank.paths);
    use.mbps = std::min(use.mbps, rank.pathsMbps);
    if (rank.info.hostId == ranks[0].info.hostId) continue;
    leaves = true;
    const std::optional<LinkProfile> link = links.linkBetween(0, rank.info.rank);
    if (!link || !link->spreadsOverPaths) return {};
  }
  return leaves ? use : PathUse();
}

Result<std::optional<HostLinkFigures>> measureHostLinks(Comm& comm) {
  const std::vector<PeerDescriptor>& descriptors = comm.links().descriptors();
  TUTTI_ASSIGN(const size_t word, configChoice("TUTTI_LINK_PROBE"));
  const auto probing = static_cast<LinkProbing>(word);
  if (probing == LinkProbing::Off) return std::optional<HostLinkFigures>();
  TUTTI_ASSIGN(const Calibration calibration, parseCalibration(descriptors.front().calibration));
  if (probing == LinkProbing::Auto && calibration.times == 0) return std::optional<HostLinkFigures>();
  Ring ring(comm, probing);
  if (!ring.any()) return std::optional<HostLinkFigures>();
  if (const std::string known = inherited(descriptors); !known.empty()) return parseHostLink(known);
  const int64_t beganNs = nowNs();
  TUTTI_ASSIGN(Found found, runOnce(comm, &ring));
  int runs = 1;
  if (found.cameToItsEnd && someIsOdd(measuredOf(found.byRank))) {
    TUTTI_ASSIGN(const Found again, runOnce(comm, &ring));
    std::ranges::transform(found.byRank, again.byRank, found.byRank.begin(), betterOf);
    ++runs;
  }
  const std::vector<HostLinkFigures> measured = measuredOf(found.byRank);
  const HostLinkFigures common = commonOf(measured);
  if (comm.rank() == 0) tell(found.byRank, common, runs, (nowNs() - beganNs) / 1'000'000);
  return measured.empty() ? std::optional<HostLinkFigures>() : common;
}

}  // namespace tutti
