#include "src/plan/planner.hpp"

#include <algorithm>
#include <cmath>

#include "src/plan/walk_cost.hpp"

namespace tutti {
namespace {

constexpr Protocol kAllProtocols[] = {Protocol::Inline, Protocol::Slots, Protocol::Direct};

/// What one TCP stream carries, driven by one core; a faster interface needs several.
constexpr double kStreamGBps = 3;
/// From sched_yield() of one rank until the next on its core goes on; 0.66 us between threads, 0.81 us between
/// processes on a virtual Emerald Rapids Xeon.
constexpr double kHandOverUs = 0.75;
/// Where all of a message's latency but the wake-up is system calls.
constexpr double kSystemCallWorkShare = 0.9;
/// A channel that moves less than this is not worth its latency.
constexpr double kLeastBytesPerChannel = 1 << 20;

/// The largest message of any algorithm: ops move chunks, and no chunk is larger than the shape's vector or block.
double messageBytes(const PlanRequest& r) {
  return static_cast<double>(r.shape.collective == Collective::Barrier ? 0 : r.shape.bytes);
}

/// Why the protocol cannot serve this request on this kind of link; empty: it can.
std::string whyNot(const PlanRequest& r, const Calibration& c, LinkKind kind, Protocol protocol, bool insideNode) {
  const LinkCost& link = c.at(kind, protocol);
  if (!link.available) return cat(linkKindName(kind), " links have no ", protocolName(protocol), " protocol");
  if (protocol == Protocol::Inline && messageBytes(r) > static_cast<double>(link.mostBytes)) {
    return cat("inline takes ", link.mostBytes, " bytes, not ", formatBytes(r.shape.bytes));
  }
  if (protocol == Protocol::Direct && r.shape.collective == Collective::Barrier) return "a barrier moves no bytes";
  if (protocol == Protocol::Direct && insideNode && !r.directPossible) {
    return "not every rank's buffers can be read by its peers";
  }
  return "";
}

/// The cheapest usable protocol for one message of the request.
MessageCost cheapestMessage(const PlanRequest& r, const Calibration& c, LinkKind kind, bool insideNode) {
  MessageCost best{Protocol::Slots, HUGE_VAL};
  for (const Protocol p : kAllProtocols) {
    if (!whyNot(r, c, kind, p, insideNode).empty()) continue;
    const double us = c.at(kind, p).costIn(messageBytes(r), 2 * messageBytes(r), false)(messageBytes(r));
    if (us < best.costUs) best = {p, us};
  }
  return best;
}

Protocol interProtocol(const PlanRequest& r, const Calibration& c) {
  return cheapestMessage(r, c, *r.links.inter, false).protocol;
}

/// The kind of link that `protocol` of a candidate is about.
LinkKind mainKind(const PlanRequest& r) {
  if (r.links.intra) return *r.links.intra;
  return r.links.inter ? *r.links.inter : LinkKind::ShmThreads;  // one rank: any will do
}

/// More channels help only where one stream cannot fill the wire.  Lanes of one host are driven by one thread, which is
/// as busy with one of them as with several.
int channelsFor(const PlanRequest& r, const Calibration& c) {
  if (r.overrides.nChannels > 0) return r.overrides.nChannels;
  if (r.links.inter != LinkKind::TcpRemote) return 1;
  const double wire = c.at(LinkKind::TcpRemote, Protocol::Slots).cost.bandwidthGBps;
  const double most = std::min(
      {std::ceil(wire / kStreamGBps), messageBytes(r) / kLeastBytesPerChannel, static_cast<double>(r.mostChannels)});
  return std::max(1, static_cast<int>(most));
}

/// Bytes that the call is about, all blocks together.
double callBytes(const Shape& s) {
  const bool oneVector = s.collective == Collective::AllReduce || s.collective == Collective::Broadcast ||
                         s.collective == Collective::Reduce;
  return static_cast<double>(s.bytes) * (oneVector ? 1 : s.nRanks);
}

/// Ranks of the fullest node.
double ranksOfNode(const Shape& s) {
  if (s.nodeOf.empty()) return s.nRanks;
  std::vector<int> ranks(s.nodeOf.size(), 0);
  for (const int node : s.nodeOf) ++ranks[static_cast<size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

/// Bytes of input and output of all ranks of a host, which it holds in its caches or does not.  Calls in place touch
/// less, but ranks need not agree on that.
double footprint(const PlanRequest& r) {
  const Shape& s = r.shape;
  const double n = s.nRanks;
  double blocks = 2 * n;  // of all ranks: vectors in and out, or those that a root scatters or gathers
  switch (s.collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter: blocks = n * (n + 1); break;
    case Collective::AllToAll: blocks = 2 * n * n; break;
    default: break;
  }
  return blocks * static_cast<double>(s.bytes) * ranksOfNode(s) / n;
}

/// Whether every rank sends while it receives.
bool goesBothWays(Collective c) {
  return c == Collective::AllReduce || c == Collective::AllGather || c == Collective::ReduceScatter ||
         c == Collective::AllToAll;
}

bool reduces(Collective c) {
  return c == Collective::AllReduce || c == Collective::ReduceScatter || c == Collective::Reduce;
}

/// Messages inside a node, as part of the request's call.
LinearCost insideNode(const PlanRequest& r, const Calibration& c, Protocol protocol, bool bothWays) {
  LinearCost link = c.at(*r.links.intra, protocol).costIn(callBytes(r.shape), footprint(r), bothWays);
  if (protocol != Protocol::Direct || r.links.intra != LinkKind::ShmProcesses) return link;
  // Memory of another process that is not mapped costs the reader a system call for each message, and is copied whole
  // before it can be an operand: written once more and read once more.
  link.workShare = kSystemCallWorkShare;
  if (reduces(r.shape.collective)) link.bandwidthGBps = 1 / (1 / link.bandwidthGBps + 2 / c.copyGBps);
  return link;
}

LinearCost slower(const LinearCost& a, const LinearCost& b) {
  LinearCost both;
  both.latencyUs = std::max(a.latencyUs, b.latencyUs);
  both.bandwidthGBps = std::min(a.bandwidthGBps, b.bandwidthGBps);
  return both;
}

std::string describe(const Shape& s) {
  return cat(s.nRanks, s.nRanks == 1 ? " rank" : " ranks", s.uneven ? ", blocks of different sizes" : "",
             s.commutative ? "" : ", operands in rank order", s.inPlace ? ", in place" : "");
}

/// Why an algorithm is out with every protocol.
std::string exclusion(const PlanRequest& r, const Algorithm& a) {
  const Algorithm* asked = r.overrides.of(r.shape.collective);
  const bool another = (asked != nullptr && asked != &a) || !r.overrides.readyOf(r.shape.collective).empty();
  if (another) return "TUTTI_ALGO asks for another";
  if (!a.supports(r.shape)) return cat("does not support ", describe(r.shape));
  return "";
}

std::string exclusion(const PlanRequest& r, const ReadyPlan& ready) {
  const std::string& asked = r.overrides.readyOf(r.shape.collective);
  const bool another = r.overrides.of(r.shape.collective) != nullptr || (!asked.empty() && !ready.answersTo(asked));
  if (another) return "TUTTI_ALGO asks for another";
  const size_t lanes = ready.outOfPlace->front().lanes.size() * static_cast<size_t>(std::max(1, r.overrides.nChannels));
  if (lanes > static_cast<size_t>(r.mostLanes)) return cat("needs ", lanes, " lanes; there are ", r.mostLanes);
  return "";
}

/// Why a protocol is out with every algorithm.
std::string exclusion(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  // A program that moves its bytes directly still has barriers.
  const bool barrier = r.shape.collective == Collective::Barrier && r.overrides.protocol == Protocol::Direct;
  if (r.overrides.protocol && *r.overrides.protocol != protocol && !barrier) return "TUTTI_PROTO asks for another";
  return whyNot(r, c, mainKind(r), protocol, r.links.intra.has_value());
}

/// Nothing was left to choose from: say what stood in the way, the user's wishes first.
Status impossible(const PlanRequest& r, const Calibration& c) {
  const std::string call =
      cat(collectiveKey(r.shape.collective), " of ", r.shape.bytes, " bytes on ", describe(r.shape));
  const Algorithm* asked = r.overrides.of(r.shape.collective);
  if (asked != nullptr && !asked->supports(r.shape)) {
    return invalidUsage("TUTTI_ALGO: ", asked->name, " does not support ", call, "; unset it or choose one of ",
                        algorithmNames(r.shape.collective));
  }
  if (const std::string& ready = r.overrides.readyOf(r.shape.collective); !ready.empty()) {
    return invalidUsage("TUTTI_ALGO: no plan '", ready, "' of TUTTI_PLAN_DIR serves ", call);
  }
  if (r.overrides.protocol) {
    const std::string why = whyNot(r, c, mainKind(r), *r.overrides.protocol, r.links.intra.has_value());
    if (!why.empty())
      return invalidUsage("TUTTI_PROTO=", protocolName(*r.overrides.protocol), " for ", call, ": ", why);
  }
  return invalidUsage("no algorithm supports ", call);
}

}  // namespace

double ranksPerCore(int ranksOnNode, int cores) {
  return std::max(1.0, static_cast<double>(ranksOnNode) / std::max(1, cores));
}

bool publishes(const PlanRequest& r, const Algorithm& a) {
  const bool asked = !r.overrides.protocol || *r.overrides.protocol == Protocol::Inline;
  const bool fits = r.boardBytes > 0 && messageBytes(r) <= static_cast<double>(r.boardBytes);
  // Everybody maps everybody's board: not for hundreds of ranks.
  constexpr int kMostRanks = 64;
  const bool worthIt = r.shape.nRanks > 2 && r.shape.nRanks <= kMostRanks;
  return a.publishes && asked && fits && worthIt && r.overrides.nChannels <= 1;
}

MessageCost messageCost(LinkKind kind, size_t bytes, bool directPossible, const Calibration& c) {
  PlanRequest r;
  r.shape.bytes = bytes;
  r.directPossible = directPossible;
  return cheapestMessage(r, c, kind, kind != LinkKind::TcpRemote);
}

CostModel costModel(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  CostModel m;
  m.intra = r.links.intra ? insideNode(r, c, protocol, goesBothWays(r.shape.collective)) : LinearCost{};
  m.exchange = r.links.intra ? insideNode(r, c, protocol, true) : LinearCost{};
  m.oneWay = r.links.intra ? insideNode(r, c, protocol, false) : LinearCost{};
  if (r.links.inter) {
    m.inter = c.at(*r.links.inter, r.links.intra ? interProtocol(r, c) : protocol).cost;
    const int channels = channelsFor(r, c);
    if (*r.links.inter == LinkKind::TcpRemote) {
      m.inter.bandwidthGBps = std::min(m.inter.bandwidthGBps, kStreamGBps * channels);
    }
    m.link = r.links.intra ? slower(m.intra, m.inter) : m.inter;
    m.exchange = r.links.intra ? slower(m.exchange, m.inter) : m.inter;
    m.oneWay = r.links.intra ? slower(m.oneWay, m.inter) : m.inter;
    if (!r.links.intra) m.intra = m.inter;
  } else {
    m.link = m.inter = m.intra;
  }
  m.reduceGBps = r.links.intra ? c.reduceGBpsIn(footprint(r)) : c.reduceGBps;
  m.copyGBps = c.copyGBps;
  // On loopback a message is system calls on both sides, in which the kernel does all there is to do.
  const bool loopback = r.links.intra && *r.links.intra == LinkKind::TcpLocal;
  m.ranksPerCore = std::max(1.0, r.links.ranksPerCore);
  const bool shared = m.ranksPerCore > 1 && r.links.intra;
  for (LinearCost* link : {&m.intra, &m.link, &m.exchange, &m.oneWay}) {
    if (shared) link->waitUs = kHandOverUs;
    if (loopback) {
      link->workShare = kSystemCallWorkShare;
    } else if (shared && !r.links.inter) {
      link->workShare = 1;  // nothing is on the way while a core is given from one rank to another
    }
  }
  return m;
}

namespace {

/// Adds to the table, and takes the candidate if it is the cheapest so far.
void consider(Candidate candidate, Choice* best) {
  const bool first = best->algorithm == nullptr && !best->ready;
  if (std::isfinite(candidate.costUs) && (first || candidate.costUs < best->costUs)) {
    best->algorithm = candidate.algorithm;
    best->ready = candidate.ready;
    best->protocol = candidate.protocol;
    best->nChannels = candidate.nChannels;
    best->costUs = candidate.costUs;
    best->parts = candidate.parts;
  }
  best->table.push_back(std::move(candidate));
}

/// Every usable protocol with plans that come with their schedules.  Those have the channels that they have.
void considerReady(const PlanRequest& r, const Calibration& c, Choice* best) {
  const int nChannels = std::max(1, r.overrides.nChannels);
  for (const ReadyPlan& ready : r.ready) {
    if (std::string why = exclusion(r, ready); !why.empty()) {
      best->table.push_back({nullptr, ready, Protocol::Slots, nChannels, 0, {}, std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      if (!best->protocolExcluded[static_cast<size_t>(protocol)].empty()) continue;
      const double us = walkUs(*ready.outOfPlace, r.shape, costModel(r, c, protocol));
      consider({nullptr, ready, protocol, nChannels, us, {}, ""}, best);
    }
  }
}

}  // namespace

Result<Choice> plan(const PlanRequest& r, const Calibration& c) {
  if (r.overrides.nChannels > r.mostChannels) {
    return invalidUsage("TUTTI_NCHANNELS=", r.overrides.nChannels, ": at most ", r.mostChannels, " are possible here");
  }
  Choice best;
  const int nChannels = best.nChannels = channelsFor(r, c);
  for (const Protocol protocol : kAllProtocols) {
    best.protocolExcluded[static_cast<size_t>(protocol)] = exclusion(r, c, protocol);
  }
  for (const Algorithm* a : algorithms()) {
    if (a->collective != r.shape.collective) continue;
    if (std::string why = exclusion(r, *a); !why.empty()) {
      best.table.push_back({a, {}, Protocol::Slots, nChannels, 0, {}, std::move(why)});
      continue;
    }
    for (const Protocol protocol : kAllProtocols) {
      if (!best.protocolExcluded[static_cast<size_t>(protocol)].empty()) continue;
      CostModel model = costModel(r, c, protocol);
      if (publishes(r, *a)) model.link.workShare = LinearCost().workShare;
      Shape shape = r.shape;
      shape.parts = a->chooseParts != nullptr ? a->chooseParts(shape, model) : std::vector<LevelPart>{};
      const double us = a->costUs(shape, model);
      consider({a, {}, protocol, nChannels, us, shape.parts, ""}, &best);
    }
  }
  considerReady(r, c, &best);
  if (best.algorithm == nullptr && !best.ready) return impossible(r, c);
  best.interProtocol = r.links.intra && r.links.inter ? interProtocol(r, c) : best.protocol;
  return best;
}

}  // namespace tutti
