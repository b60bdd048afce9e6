#include "src/control/notice.hpp"

#include <algorithm>
#include <utility>

#include "src/control/failure.hpp"

namespace tutti {

namespace {
constexpr int64_t kAgainNs = 20'000'000;
}

Notice::Notice(Network& network, LinkAuthentication& authentication, MemberId id, const JoinRequest& request,
               Failure failure)
    : network_(network), authentication_(authentication), id_(id), request_(request), failure_(std::move(failure)) {}

// A rank that cannot be is told of all the same: the place asks for no more than a number.
void Notice::start() {
  nextNs_ = kNoTimer;
  const Hello hello{Purpose::Meet, request_.commId, std::max(request_.rank, 0), -1, request_.nRanks, 0};
  link_ = authentication_.dial(request_.rendezvous, hello, request_.secret, id_);
}

void Notice::cancel() {
  nextNs_ = kNoTimer;
  authentication_.cancel(std::exchange(link_, 0));
}

void Notice::onProven(LinkId link) {
  link_ = 0;
  told_ = true;
  network_.send(link, failureMessage(failure_));
  network_.close(link);
}

void Notice::onDialFailed(LinkId link, const Status& why) {
  if (link != link_) return;
  link_ = 0;
  trouble_ = why;
  nextNs_ = network_.nowNs() + kAgainNs;
}

void Notice::onTimer() {
  if (nextNs_ <= network_.nowNs()) start();
}

}  // namespace tutti
