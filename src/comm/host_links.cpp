#include "src/comm/host_links.hpp"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/comm.hpp"

namespace tutti {
namespace {

/// After which a probe gives up: one that goes well takes a tenth of that.
constexpr int kMostMs = 500;
/// Waiting ranks hand their core on, and sleep between looks once the other end is late.
constexpr int64_t kPatienceNs = 50 * kMs;
constexpr timespec kPause{0, 100'000};

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

  /// Whether some host probes the way to the next.
  bool any() const {
    for (size_t host = 0; host < firsts_.size(); ++host)
      if (probes(host)) return true;
    return false;
  }

  /// Of the way from this rank's host to the next; nothing on ranks that have no part.  Errors: why it was not
  /// measured.
  Result<HostLinkFigures> run() {
    const auto mine = std::ranges::find(firsts_, comm_.rank());
    if (mine == firsts_.end()) return HostLinkFigures();
    const auto host = static_cast<size_t>(mine - firsts_.begin());
    const size_t before = (host + firsts_.size() - 1) % firsts_.size();
    const Deadline deadline = Deadline::inMs(kMostMs);
    PendingEndpoint out, in;
    if (probes(host)) out = open(next(host), host);
    if (probes(before)) in = open(before, before);
    TUTTI_TRY(await(deadline, [&]() -> Result<ProbeStep> {
      TUTTI_ASSIGN(const bool outIsUp, isUp(out, &out_));
      TUTTI_ASSIGN(const bool inIsUp, isUp(in, &in_));
      return outIsUp && inIsUp ? ProbeStep::Done : ProbeStep::Waits;
    }));
    return exchange(deadline);
  }

 private:
  size_t next(size_t host) const { return (host + 1) % firsts_.size(); }
  const PeerDescriptor& of(size_t host) const {
    return comm_.links().descriptors()[static_cast<size_t>(firsts_[host])];
  }
  /// Whether the host probes the way to the next one.
  bool probes(size_t host) const {
    const size_t to = next(host);
    return to != host && (probing_ == LinkProbing::Always || of(host).network != of(to).network);
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

  Result<HostLinkFigures> exchange(Deadline deadline) const {
    std::optional<HostLinkProbe> probe;
    std::optional<HostLinkEcho> echo;
    if (out_ != nullptr) probe.emplace(*out_);
    if (in_ != nullptr) echo.emplace(*in_);
    TUTTI_TRY(await(deadline, [&]() -> Result<ProbeStep> {
      TUTTI_ASSIGN(const ProbeStep near, probe ? probe->step(nowNs()) : Result(ProbeStep::Done));
      TUTTI_ASSIGN(const ProbeStep far, echo ? echo->step() : Result(ProbeStep::Done));
      if (near == ProbeStep::Moved || far == ProbeStep::Moved) return ProbeStep::Moved;
      return near == ProbeStep::Done && far == ProbeStep::Done ? ProbeStep::Done : ProbeStep::Waits;
    }));
    return probe ? probe->figures() : HostLinkFigures();
  }

  /// As awaitValue(), but awake: sleep would be measured.
  template <class Step>
  Status await(Deadline deadline, Step step) const {
    const int64_t beganNs = nowNs();
    for (;;) {
      TUTTI_ASSIGN(const ProbeStep came, step());
      if (came == ProbeStep::Done) return {};
      if (comm_.watchdog().abortState().ended()) return remoteError(ErrorCode::Aborted, "the communicator has ended");
      if (deadline.passed()) return timeoutError(ErrorCode::RankSilent, "no answer within ", kMostMs, " ms");
      if (came == ProbeStep::Moved) continue;
      comm_.links().progress();
      if (nowNs() - beganNs < kPatienceNs) {
        (void)sched_yield();
      } else {
        nanosleep(&kPause, nullptr);
      }
    }
  }

  Comm& comm_;
  const LinkProbing probing_;
  const std::vector<int> firsts_;
  std::unique_ptr<Endpoint> out_, in_;  // until all have measured: what is sent last may be on its way
};

/// What all ranks have from their parent; none: not all have the same.
std::string inherited(const std::vector<PeerDescriptor>& descriptors) {
  const std::string& first = descriptors.front().hostLinks;
  const bool all = std::ranges::all_of(descriptors, [&](const PeerDescriptor& d) { return d.hostLinks == first; });
  return all ? first : "";
}

void tell(const std::vector<std::string>& texts, const std::vector<HostLinkFigures>& measured) {
  if (measured.empty()) TUTTI_INFO("plan", "no link between hosts could be measured: their nominal speed counts");
  if (measured.empty()) return;
  const HostLinkFigures common = commonOf(measured);
  std::string each;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) each += cat(each.empty() ? "" : ", ", "rank ", rank, " ", texts[rank]);
  TUTTI_INFO("plan", "links between hosts take ", common.latencyUs, " us and carry ", common.bandwidthGBps,
             " GB/s (us and GB/s from the host of ", each, ")");
}

}  // namespace

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
  return leaves && use.paths > 1 ? use : PathUse();
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
  const Result<HostLinkFigures> mine = ring.run();
  if (!mine.ok())
    TUTTI_INFO("plan", "rank ", comm.rank(), ": the way to the next host was not measured: ", mine.status().message());
  TUTTI_ASSIGN(const std::vector<std::string> texts,
               comm.control().allGather(mine.ok() ? toText(*mine) : "", comm.deadline()));
  std::vector<HostLinkFigures> all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const Result<std::optional<HostLinkFigures>> theirs = parseHostLink(texts[rank]);
    if (!theirs.ok()) return remoteError(ErrorCode::Malformed, "rank ", rank, " sent ", theirs.status().text());
    if (*theirs) all.push_back(**theirs);
  }
  if (comm.rank() == 0) tell(texts, all);
  return all.empty() ? std::optional<HostLinkFigures>() : commonOf(all);
}

}  // namespace tutti
