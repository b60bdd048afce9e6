#include "src/control/rendezvous.hpp"

#include <algorithm>
#include <iterator>

#include "src/base/log.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

namespace {

/// A rank whose link broke may dial again within this time; then it is taken for dead.
constexpr int64_t kRedialNs = 60'000'000;
/// The same of one whose link broke before its proof: it may have been slow to answer, and be as slow to dial.
constexpr int64_t kBeginAgainNs = 250'000'000;
/// How long a place that has failed stays to tell latecomers.
constexpr int64_t kLingerNs = 30'000'000'000;
constexpr size_t kMaxClaims = 64;  // strangers may claim anything
constexpr size_t kMaxPeers = 256;  // of one message; a rank dials at most log2 n

}  // namespace

std::string registerMessage(const Registration& r) {
  Writer w(MessageType::Register);
  w.i32(r.rank);
  w.i32(r.nRanks);
  w.text(r.controlAddress);
  w.raw(r.instance.data(), r.instance.size());
  w.i64(r.patienceNs);
  return w.take();
}

Result<Registration> readRegistration(Reader& in) {
  Registration r;
  r.rank = in.i32();
  r.nRanks = in.i32();
  r.controlAddress = in.text(kMaxControlAddressBytes);
  in.raw(r.instance.data(), r.instance.size());
  r.patienceNs = in.i64();
  if (!in.done() || r.rank < 0 || r.nRanks < 1 || r.nRanks > kMaxRanks || r.patienceNs < 0)
    return remoteError(ErrorCode::Malformed, "a malformed registration");
  return r;
}

std::string peersMessage(const std::vector<PeerAddress>& peers) {
  Writer w(MessageType::Peers);
  w.u32(static_cast<uint32_t>(peers.size()));
  for (const auto& [rank, controlAddress] : peers) {
    w.i32(rank);
    w.text(controlAddress);
  }
  return w.take();
}

Result<std::vector<PeerAddress>> readPeers(Reader& in) {
  std::vector<PeerAddress> peers(in.count(8));
  for (auto& [rank, controlAddress] : peers) {
    rank = in.i32();
    controlAddress = in.text(kMaxControlAddressBytes);
  }
  if (!in.done() || peers.size() > kMaxPeers) return remoteError(ErrorCode::Malformed, "a malformed list of peers");
  return peers;
}

void Rendezvous::onProven(LinkId link, const Hello& hello) {
  links_[link] = hello.dialer;
  vanished_.erase(hello.dialer);
  if (hello.nRanks < kMaxRanks) most_ = std::max(most_, hello.nRanks);  // that is said where it is not known
}

void Rendezvous::onOtherSecret(const Hello& hello) {
  if (otherSecret_.size() < kMaxClaims) otherSecret_.insert(hello.dialer);
}

void Rendezvous::onMessage(LinkId link, std::string_view message) {
  if (!links_.contains(link)) return;
  Reader in(message);
  switch (static_cast<MessageType>(in.u8())) {
    case MessageType::Register: return onRegister(link, in);
    case MessageType::Failure: {
      const Result<Failure> failure = readFailure(in);
      if (!failure.ok()) return drop(link);
      heard_.insert(links_[link]);
      return fail(*failure);
    }
    case MessageType::Goodbye: {
      const auto seat = seats_.find(links_[link]);
      if (seat != seats_.end() && seat->second.link == link && !seat->second.up) {
        seat->second.up = true;
        ++nUp_;
      }
      return drop(link);
    }
    default: return drop(link);
  }
}

void Rendezvous::onRegister(LinkId link, Reader& in) {
  const Result<Registration> parsed = readRegistration(in);
  if (!parsed.ok() || parsed->rank != links_[link]) return drop(link);
  const Registration& r = *parsed;
  if (late_.contains(r.rank)) {
    heard_.insert(r.rank);
    return network_.send(link, failureMessage(cameTooLate(r.rank)));
  }
  if (failure_) return tellFailure(link, r.rank);
  if (nRanks_ == 0) {
    nRanks_ = r.nRanks;
    firstRank_ = r.rank;
    firstNs_ = network_.nowNs();
    overdue_.begin(network_.nowNs());
  }
  if (const std::optional<Failure> mistake = misnumbered(r)) return fail(*mistake);
  const auto [it, isNew] = seats_.try_emplace(r.rank);
  Seat& seat = it->second;
  if (r.patienceNs < kNoTimer / 2) seat.deadlineNs = network_.nowNs() + r.patienceNs;
  if (seat.link == link) return;  // it has put its deadline off
  if (seat.link != 0) drop(seat.link);
  seat.controlAddress = r.controlAddress;
  seat.instance = r.instance;
  seat.link = link;
  seat.lostNs = kNoTimer;
  sendTargets(r.rank);
  checkEnded();
  if (!isNew || failure_) return;
  for (const OverlayLink& other : overlayLinks(r.rank, nRanks_)) {
    const auto peer = seats_.find(other.peer);
    if (!other.weDial && peer != seats_.end() && peer->second.link != 0)
      network_.send(peer->second.link, peersMessage({{r.rank, r.controlAddress}}));
  }
}

/// What is wrong with the number or the size that a rank registers with.
std::optional<Failure> Rendezvous::misnumbered(const Registration& r) const {
  if (r.nRanks != nRanks_)
    return Failure{
        -1, invalidArgument(ErrorCode::RanksNumberedTwice, "rank ", r.rank, " joins a communicator of ", r.nRanks,
                            " ranks, but rank ", firstRank_, " one of ", nRanks_, "; give all ranks the same nRanks")};
  if (r.rank >= nRanks_)
    return Failure{r.rank, invalidArgument(ErrorCode::RanksNumberedTwice, "rank ", r.rank, " joins a communicator of ",
                                           nRanks_, " ranks; ranks are 0 to ", nRanks_ - 1)};
  const auto seat = seats_.find(r.rank);
  if (seat != seats_.end() && seat->second.instance != r.instance)
    return Failure{r.rank, invalidArgument(ErrorCode::RanksNumberedTwice, "two joined as rank ", r.rank, ": one at ",
                                           seat->second.controlAddress, " and one at ", r.controlAddress,
                                           "; give every rank its own number")};
  return {};
}

/// Tell a rank the control addresses of those that it dials, as far as they are here.  Always an answer, if an empty
/// one: so the rank knows that it is registered.
void Rendezvous::sendTargets(int rank) {
  std::vector<PeerAddress> known;
  for (const OverlayLink& other : overlayLinks(rank, nRanks_)) {
    const auto peer = seats_.find(other.peer);
    if (other.weDial && peer != seats_.end()) known.emplace_back(other.peer, peer->second.controlAddress);
  }
  network_.send(seats_[rank].link, peersMessage(known));
}

void Rendezvous::drop(LinkId link) {
  network_.close(link);
  onClosed(link);
}

void Rendezvous::onClosed(LinkId link) {
  const auto it = links_.find(link);
  if (it == links_.end()) return;
  const int rank = it->second;
  const auto seat = seats_.find(rank);
  links_.erase(it);
  if (seat == seats_.end()) vanished_[rank] = network_.nowNs() + kRedialNs;
  if (seat == seats_.end() || seat->second.link != link) return;
  seat->second.link = 0;
  if (!seat->second.up) seat->second.lostNs = network_.nowNs();
}

void Rendezvous::onVanished(const Hello& hello) {
  const int rank = hello.dialer;
  const bool linked = std::any_of(links_.begin(), links_.end(), [&](const auto& link) { return link.second == rank; });
  if (!linked && !seats_.contains(rank)) vanished_.try_emplace(rank, network_.nowNs() + kBeginAgainNs);
}

void Rendezvous::onEnded(int rank, const std::string& how) {
  if (!seats_.contains(rank)) ended_[rank] = how;  // of others their links tell
  checkEnded();
}

/// Whether one of the ranks has ended without having come.  Which numbers are ranks is known when the first has come.
void Rendezvous::checkEnded() {
  for (const auto& [rank, how] : ended_)
    if (rank >= 0 && rank < nRanks_ && !seats_.contains(rank))
      return fail({rank, remoteError(ErrorCode::RankGone, "rank ", rank, " ", how,
                                     " before it had met the other ranks, says its launcher")});
}

void Rendezvous::putOff(int64_t lateNs) {
  for (auto& [rank, seat] : seats_) {
    if (seat.deadlineNs != kNoTimer) seat.deadlineNs += lateNs;
    if (seat.lostNs != kNoTimer) seat.lostNs += lateNs;
  }
  for (auto& [rank, goneNs] : vanished_) goneNs += lateNs;
}

void Rendezvous::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  failedNs_ = network_.nowNs();
  for (const auto& [link, rank] : links_) tellFailure(link, rank);
}

void Rendezvous::tellFailure(LinkId link, int rank) {
  heard_.insert(rank);
  network_.send(link, failureMessage(*failure_));
}

bool Rendezvous::done() const {
  if (failure_) return links_.empty() && (allHaveHeard() || network_.nowNs() >= failedNs_ + kLingerNs);
  return nRanks_ > 0 && nUp_ == static_cast<size_t>(nRanks_);
}

Failure Rendezvous::lostRank(int rank, const ControlAddress& where) const {
  return {rank, remoteError(ErrorCode::RankGone, "rank ", rank, where.empty() ? "" : " at ", where,
                            " has lost its connection to the rendezvous while ranks were joining; its process has "
                            "probably ended")};
}

std::vector<int> Rendezvous::missingRanks() const {
  std::vector<int> missing;
  for (int rank = 0; rank < nRanks_; ++rank)
    if (!seats_.contains(rank)) missing.push_back(rank);
  return missing;
}

/// Names the ranks that have not come, and what to do.
/// more: of that.
std::string Rendezvous::missing(const std::string& when, const std::string& more) const {
  const std::vector<int> missing = missingRanks();
  std::vector<int> strange;
  std::set_intersection(missing.begin(), missing.end(), otherSecret_.begin(), otherSecret_.end(),
                        std::back_inserter(strange));
  const std::string hint =
      strange.empty() ? cat("check that every rank was started and that no firewall keeps it from ", where_, more)
                      : cat(strange.size() == 1 ? "one that calls itself rank " : "some that call themselves ranks ",
                            listRanks(strange), " came with another secret: set TUTTI_SECRET alike on all ranks");
  const bool one = missing.size() == 1;
  return cat(nameRanks(missing), one ? " has" : " have", " not come to the rendezvous ", when, " (", seats_.size(),
             " of ", nRanks_, " ranks are here); ", hint);
}

Failure Rendezvous::tooLate() const {
  const std::vector<int> ranks = missingRanks();
  const std::string more = cat("; rank ", firstRank_, " has waited ", formatSpan(network_.nowNs() - firstNs_),
                               ": raise TUTTI_TIMEOUT_MS if ranks may take longer to start");
  return {ranks.size() == 1 ? ranks[0] : -1, timeoutError(ErrorCode::RanksMissing, missing("in time", more))};
}

Failure Rendezvous::cameTooLate(int rank) const {
  return {rank, timeoutError(ErrorCode::RanksMissing, "rank ", rank, " came to the rendezvous at ", where_, " ",
                             formatSpan(network_.nowNs() - failedNs_), " too late: the other ranks had waited ",
                             formatSpan(failedNs_ - firstNs_),
                             " and given up; start all ranks within that time, or raise TUTTI_TIMEOUT_MS on all of "
                             "them")};
}

int64_t Rendezvous::nextTimerNs() const {
  if (failure_) return links_.empty() ? failedNs_ + kLingerNs : kNoTimer;
  int64_t next = allHere() ? kNoTimer : overdue_.nextNs();
  for (const auto& [rank, seat] : seats_) {
    if (!allHere()) next = std::min(next, seat.deadlineNs);
    if (seat.lostNs != kNoTimer) next = std::min(next, seat.lostNs + kRedialNs);
  }
  for (const auto& [rank, goneNs] : vanished_) next = std::min(next, goneNs);
  return next;
}

void Rendezvous::onTimer() {
  if (failure_) return;
  const int64_t now = network_.nowNs();
  for (const auto& [rank, seat] : seats_) {
    if (seat.lostNs != kNoTimer && seat.lostNs + kRedialNs <= now) return fail(lostRank(rank, seat.controlAddress));
    if (!allHere() && seat.deadlineNs <= now) {
      const std::vector<int> missing = missingRanks();
      late_ = {missing.begin(), missing.end()};
      return fail(tooLate());
    }
  }
  for (const auto& [rank, goneNs] : vanished_)
    if (goneNs <= now) return fail(lostRank(rank, {}));
  const int64_t seconds = allHere() ? 0 : overdue_.dueSeconds(now);
  if (seconds > 0) TUTTI_WARN("bootstrap", missing(cat("within ", seconds, " s")));
}

}  // namespace tutti
