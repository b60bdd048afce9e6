#include "src/comm/host_executor.hpp"

#include <algorithm>

#include "src/comm/group.hpp"
#include "src/comm/launch.hpp"

namespace tutti {

Result<std::function<bool()>> HostExecutor::open() {
  const auto postingTo = [&](int peer) {
    const LinkProfile& link = comm_.links().linkTo(peer);
    if (link.mostRequests == 0) return Posting::Nothing;
    return link.puts ? Posting::Direct : Posting::All;
  };
  for (int peer = 0; peer < comm_.nRanks(); ++peer) postings_.push_back(postingTo(peer));
  if (std::ranges::count(postings_, Posting::Nothing) == comm_.nRanks()) postings_.clear();
  return std::function<bool()>();
}

Result<Endpoint*> HostExecutor::endpoint(int peer, int lane) { return comm_.links().endpoint(peer, lane); }

Result<Endpoint*> HostExecutor::narrowed(int peer, int lane, const WireCode& code) {
  TUTTI_ASSIGN(Endpoint * bytes, endpoint(peer, lane));
  if (bytes == nullptr || !comm_.links().linkTo(peer).betweenHosts) return bytes;
  const auto [packed, made] = packed_.try_emplace({peer, lane, code.dtype}, *bytes, code, comm_.layout().sliceBytes);
  return static_cast<Endpoint*>(&packed->second);
}

Result<std::byte*> HostExecutor::workspace(size_t bytes) {
  if (workspace_.size() < bytes) workspace_.resize(bytes);
  return workspace_.data();
}

Status HostExecutor::equip(PlanEntry* entry, bool) {
  entry->run = std::make_unique<CollectiveRun>(*entry->plan);
  return {};
}

std::unique_ptr<Batch> HostExecutor::newBatch() { return std::make_unique<Batch>(comm_); }

Carrier HostExecutor::carrier(tuttiStream_t stream, HostStream* own) const {
  return {.thread = stream != nullptr ? stream->host.get() : own};
}

Status HostExecutor::checkStream(tuttiStream_t stream) const {
  if (stream != nullptr && stream->generation != forkGeneration()) {
    return invalidUsage(ErrorCode::Forked,
                        "stream was made before this process was forked and is its parent's: make one in the child");
  }
  if (stream != nullptr && stream->host == nullptr)
    return invalidArgument(ErrorCode::Stream, "stream has been destroyed");
  return {};
}

}  // namespace tutti
