#include "src/control/meeting.hpp"

#include <algorithm>

#include "src/base/log.hpp"

namespace tutti {

namespace {

/// A rendezvous that has been reached before and cuts links off for this long is gone.
constexpr int64_t kRendezvousCutOffNs = 1'000'000'000;
/// How long ranks may take to dial one whose address they have, where the rendezvous has gone.
constexpr int64_t kDialsNs = 250'000'000;
/// How long a rendezvous may have another secret: that of an earlier job may still be closing.
constexpr int64_t kOtherSecretNs = 2'000'000'000;

}  // namespace

std::string whereMet(const JoinRequest& request) {
  return request.rendezvous.empty() ? "" : cat(" (rendezvous ", request.rendezvous, ")");
}

Status someMissing(const JoinRequest& request, int64_t lastedNs) {
  return timeoutError(ErrorCode::RanksMissing, "rank ", request.rank, " gave up joining after ", formatSpan(lastedNs),
                      whereMet(request), "; not all ", request.nRanks,
                      " ranks came and nobody knows which; check that all run, or raise TUTTI_TIMEOUT_MS");
}

Meeting::Meeting(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request)
    : network_(network),
      authentication_(authentication),
      request_(request),
      meets_(request.members.empty() && request.nRanks > 1),
      dialer_(network, authentication, id, request.secret) {
  network_.randomBytes(std::as_writable_bytes(std::span(instance_)));
}

void Meeting::start() {
  if (!meets_) return;
  overdue_.begin(network_.nowNs());
  dial_.to = request_.rendezvous;
  dial_.hello = {Purpose::Meet, request_.commId, request_.rank, -1, request_.nRanks, 0};
  dialer_.dial(dial_);
}

void Meeting::registers(int64_t patienceNs) {
  network_.send(link_, registerMessage({request_.rank, request_.nRanks, request_.self, instance_, patienceNs}));
  if (failure_) network_.send(link_, failureMessage(*failure_));
}

void Meeting::tell(const Failure& failure) {
  if (!failure_) failure_ = failure;
  if (link_ != 0) network_.send(link_, failureMessage(failure));
}

void Meeting::leave(const std::string& goodbye) {
  left_ = true;
  dialer_.cancel(dial_);
  dial_ = {};
  if (link_ != 0) network_.send(link_, goodbye);
  close();
}

void Meeting::close() {
  dialer_.cancel(dial_);
  if (link_ != 0) network_.close(link_);
  link_ = 0;
}

bool Meeting::onProven(LinkId link) {
  if (link != dial_.link) return false;
  dial_.link = 0;
  dial_.backoffNs = 0;
  dial_.failingSinceNs = dial_.refusedSinceNs = kNoTimer;
  link_ = link;
  reached_ = true;
  return true;
}

std::optional<Failure> Meeting::onDialFailed(const Status& why, Lacks lacks) {
  dialer_.again(dial_, why);
  const int64_t now = network_.nowNs();
  otherSecretNs_ = why.code() == tuttiInvalidUsage ? std::min(otherSecretNs_, now) : kNoTimer;
  if (!reached_ && otherSecretNs_ != kNoTimer && now - otherSecretNs_ >= kOtherSecretNs) {
    dial_.nextNs = kNoTimer;
    return Failure{request_.rank, invalidUsage(ErrorCode::SecretDiffers, "rank ", request_.rank,
                                               " has another secret than the rendezvous at ", request_.rendezvous,
                                               "; set TUTTI_SECRET alike on all ranks")};
  }
  const bool wasThere = reached_ || openBeforeKnown(request_.commId);
  if (!wasThere || !dial_.findsNobody(now, kRendezvousCutOffNs)) return {};
  // The rendezvous has this rank's address, and this rank has all that it dials: the others can still dial it.  If none
  // has done so for a while, none will.
  const bool waits = answered_ && lacks != Lacks::AddressOfPeer && now - dial_.failingSinceNs < kDialsNs;
  if (waits && !over()) {
    dialer_.noLater(dial_, dial_.failingSinceNs + kDialsNs);  // pauses between dials have grown as long as that
    return {};
  }
  dial_.nextNs = kNoTimer;
  if (over() || lacks == Lacks::Nothing) return {};
  return Failure{
      -1, remoteError(ErrorCode::RendezvousGone, "the rendezvous at ", request_.rendezvous, " is gone (", why.message(),
                      ") before all ranks had met; the process that made the unique id has probably ended")};
}

void Meeting::onClosed(const Status& why) {
  link_ = 0;
  if (!over()) dialer_.again(dial_, why);
}

Meeting::News Meeting::onMessage(std::string_view message) {
  Reader in(message);
  News news;
  const auto type = static_cast<MessageType>(in.u8());
  if (type == MessageType::Peers) {
    auto peers = readPeers(in);
    if (peers.ok()) {
      answered_ = true;
      news.peers = std::move(*peers);
    } else {
      news.failure = {-1, remoteError(ErrorCode::Malformed, "the rendezvous sent a malformed list of peers")};
    }
  } else if (type == MessageType::Failure) {
    const auto failure = readFailure(in);
    news.failure = failure.ok() ? *failure : Failure{-1, failure.status()};
  }
  return news;
}

Failure Meeting::unlike() const {
  const bool here = authentication_.encrypts();
  return {request_.rank, invalidUsage(ErrorCode::EncryptionDiffers, "TUTTI_ENCRYPT is ", here ? 1 : 0, " on rank ",
                                      request_.rank, " and ", here ? 0 : 1, " where ranks meet, at ",
                                      request_.rendezvous, "; set it alike on all ranks")};
}

std::string Meeting::noAnswer(const std::string& when) const {
  const char* const advice =
      openBeforeKnown(request_.commId)
          ? "; check that the process that made the unique id runs, and that no firewall keeps this rank from it"
          : "; check that rank 0, which opens it, was started, that the address is right, and that no firewall keeps "
            "this rank from it";
  const char* const what = answered_ ? " was not told where all ranks are by" : " got no answer from";
  return cat("rank ", request_.rank, what, " the rendezvous at ", request_.rendezvous, " ", when,
             dial_.why.ok() ? "" : cat(" (", dial_.why.message(), ")"), advice);
}

int64_t Meeting::nextTimerNs() const {
  return std::min(dialer_.nextTimerNs(), !failure_ && unanswered() ? overdue_.nextNs() : kNoTimer);
}

void Meeting::onTimer() {
  dialer_.onTimer({&dial_});
  const int64_t seconds = !failure_ && unanswered() ? overdue_.dueSeconds(network_.nowNs()) : 0;
  if (seconds > 0) TUTTI_WARN("bootstrap", noAnswer(cat("within ", seconds, " s")));
}

}  // namespace tutti
