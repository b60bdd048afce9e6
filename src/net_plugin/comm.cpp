#include "src/net_plugin/comm.hpp"

namespace tutti::net_plugin {
namespace {

/// Transports name peers by rank, which are called otherwise here.
std::string withPeer(std::string text, const std::string& peer) {
  for (const std::string_view rank : {"rank 1", "rank 0"}) {
    const size_t at = text.find(rank);
    if (at != std::string::npos) return text.replace(at, rank.size(), "the peer at " + peer);
  }
  return cat("the peer at ", peer, ": ", text);
}

}  // namespace

Status Comm::progress() {
  if (!failure_.ok()) return failure_;
  link_->progress();
  const Status status = advance();
  if (!status.ok()) failure_ = Status(status.code(), withPeer(status.text(), link_->peer()));
  return failure_;
}

}  // namespace tutti::net_plugin
