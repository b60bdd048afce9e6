#include "src/comm/cuda/reach.hpp"

#include <algorithm>
#include <set>

#include "src/control/wire.hpp"

namespace tutti {
namespace {

constexpr size_t kMostReasonBytes = 4096;

bool sees(const PeerDescriptor& descriptor, const PeerDescriptor& other) {
  return descriptor.device == other.device ||
         std::find(descriptor.reached.begin(), descriptor.reached.end(), other.device) != descriptor.reached.end();
}

/// Why `rank` reaches nobody, or not those of `first`; "": it may.
std::string whyApart(const PeerDescriptor& rank, const PeerDescriptor& first) {
  if (rank.device.empty()) return cat("rank ", rank.info.rank, " is on no CUDA device");
  if (rank.info.hostId != first.info.hostId) return cat("rank ", rank.info.rank, " is on another host");
  return "";
}

std::string whyUnseen(const PeerDescriptor& rank, const PeerDescriptor& other) {
  if (sees(rank, other)) return "";
  return cat("rank ", rank.info.rank, "'s CUDA device has no peer access to rank ", other.info.rank,
             "'s, or its process does not see that (CUDA_VISIBLE_DEVICES)");
}

}  // namespace

DeviceReach::DeviceReach(const std::vector<PeerDescriptor>& descriptors)
    : nRanks_(descriptors.size()), joined_(nRanks_ * nRanks_) {
  for (const PeerDescriptor& rank : descriptors) {
    if (obstacle_.empty()) obstacle_ = whyApart(rank, descriptors.front());
  }
  for (size_t a = 0; a < nRanks_; ++a) {
    for (size_t b = a; b < nRanks_; ++b) {
      const PeerDescriptor &one = descriptors[a], &other = descriptors[b];
      if (one.device.empty() || !whyApart(other, one).empty()) continue;
      std::string why = whyUnseen(one, other);
      if (why.empty()) why = whyUnseen(other, one);
      joined_[a * nRanks_ + b] = joined_[b * nRanks_ + a] = why.empty();
      if (obstacle_.empty()) obstacle_ = why;
      crossesProcesses_ = crossesProcesses_ || (why.empty() && one.info.processId != other.info.processId);
    }
  }
}

int DeviceReach::mostPeers() const {
  std::ptrdiff_t most = 0;
  for (size_t a = 0; a < nRanks_; ++a) {
    const auto row = joined_.begin() + static_cast<std::ptrdiff_t>(a * nRanks_);
    const auto reached = std::count(row, row + static_cast<std::ptrdiff_t>(nRanks_), true);
    most = std::max(most, reached - (joined_[a * nRanks_ + a] ? 1 : 0));
  }
  return static_cast<int>(most);
}

void DeviceReach::cut(int a, int b, const std::string& why) {
  if (!joins(a, b)) return;
  joined_[index(a, b)] = joined_[index(b, a)] = false;
  if (obstacle_.empty()) obstacle_ = why;
}

std::vector<int> processesToTry(const DeviceReach& reach, const std::vector<PeerDescriptor>& descriptors, int rank) {
  std::set<uint64_t> seen = {descriptors[static_cast<size_t>(rank)].info.processId};
  std::vector<int> ranks;
  for (const PeerDescriptor& descriptor : descriptors) {
    const int other = descriptor.info.rank;
    if (reach.joins(rank, other) && seen.insert(descriptor.info.processId).second) ranks.push_back(other);
  }
  return ranks;
}

std::string encodeRefusals(const Refusals& refusals) {
  Writer writer;
  writer.u32(static_cast<uint32_t>(refusals.size()));
  for (const auto& [rank, why] : refusals) {
    writer.i32(rank);
    writer.text(std::string_view(why).substr(0, kMostReasonBytes));
  }
  return writer.take();
}

Status cutRefused(int rank, const std::string& told, const std::vector<PeerDescriptor>& descriptors,
                  DeviceReach* reach) {
  Reader reader(told);
  for (uint32_t left = reader.count(8); left > 0; --left) {
    const int refused = reader.i32();
    const std::string_view why = reader.text(kMostReasonBytes);
    if (!reader.ok() || refused < 0 || static_cast<size_t>(refused) >= descriptors.size()) break;
    const uint64_t process = descriptors[static_cast<size_t>(refused)].info.processId;
    for (const PeerDescriptor& other : descriptors) {
      if (other.info.processId == process) reach->cut(rank, other.info.rank, cat("rank ", rank, ": ", why));
    }
  }
  if (reader.done()) return {};
  return remoteError(ErrorCode::Malformed, "rank ", rank,
                     " tells what other devices' memory it can open in a way that makes no sense");
}

}  // namespace tutti
