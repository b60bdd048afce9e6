#include "src/comm/result_checks.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/config.hpp"
#include "src/base/crc32c.hpp"
#include "src/base/log.hpp"
#include "src/control/diagnosis.hpp"
#include "src/control/wire.hpp"

namespace tutti {
namespace {

bool sameOnAllRanks(const Call& call) {
  switch (call.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::Broadcast: return call.kind == CallKind::Collective && !call.counts && call.count > 0;
    default: return false;
  }
}

}  // namespace

Result<std::unique_ptr<ResultChecks>> ResultChecks::fromConfig(Control& control, bool anyCuda) {
  TUTTI_ASSIGN(const int64_t every, configInteger("TUTTI_CHECK_RESULTS"));
  if (every == 0) return std::unique_ptr<ResultChecks>();
  if (anyCuda)
    return invalidUsage(ErrorCode::NotHonoured, "TUTTI_CHECK_RESULTS=", every,
                        " is for ranks on the host alone, not on CUDA devices; set 0");
  TUTTI_DEBUG("comm", "rank ", control.rank(), ": of ", every,
              " calls whose results are the same on all ranks one is compared");
  return std::make_unique<ResultChecks>(control, static_cast<int>(every));
}

bool ResultChecks::due(const Call& call) {
  // What a user's function gives is its own business.
  if (!sameOnAllRanks(call) || call.custom != nullptr) return false;
  return ++counted_ % every_ == 0;
}

void ResultChecks::begin(const Call& call, uint64_t sequence) {
  const size_t bytes = extentsOf(call, control_.rank(), control_.nRanks()).recvBytes;
  what_ = cat(collectiveName(call.collective), " number ", sequence, " (", bytes, " bytes)");
  owners_.assign(1, call.collective == Collective::Broadcast ? call.root : -1);
  if (call.collective == Collective::AllGather) {
    owners_.resize(static_cast<size_t>(control_.nRanks()));
    std::iota(owners_.begin(), owners_.end(), 0);
  }
  Writer result;
  const size_t each = bytes / owners_.size();
  for (size_t part = 0; part < owners_.size(); ++part)
    result.u32(crc32c(static_cast<const std::byte*>(call.recvbuff) + part * each, each));
  gather_ = control_.beginAllGather(result.take());
}

Result<bool> ResultChecks::poll() {
  TUTTI_ASSIGN(const Blobs results, gather_->poll());
  if (!results) return false;
  gather_.reset();
  TUTTI_TRY(compareResults(results, owners_, what_));
  return true;
}

namespace {

/// By rank, of one part.  Empty: malformed.
std::vector<uint32_t> partOf(const Blobs& results, size_t part, size_t nParts) {
  std::vector<uint32_t> checksums;
  for (const std::string& result : results) {
    if (result.size() != nParts * sizeof(uint32_t)) return {};
    Reader in(std::string_view(result).substr(part * sizeof(uint32_t)));
    checksums.push_back(in.u32());
  }
  return checksums;
}

/// Who has the part right.  -1: no more than half agree.
int rightRank(const std::vector<uint32_t>& checksums, int owner) {
  if (owner >= 0) return owner;
  for (size_t rank = 0; rank < checksums.size(); ++rank) {
    const auto same = static_cast<size_t>(std::count(checksums.begin(), checksums.end(), checksums[rank]));
    if (2 * same > checksums.size()) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace

Status compareResults(const Blobs& results, const std::vector<int>& owners, const std::string& what) {
  for (size_t part = 0; part < owners.size(); ++part) {
    const std::vector<uint32_t> checksums = partOf(results, part, owners.size());
    if (checksums.empty()) return remoteError(ErrorCode::Malformed, "a malformed checksum of the result of ", what);
    if (std::count(checksums.begin(), checksums.end(), checksums[0]) == std::ssize(checksums)) continue;
    const int right = rightRank(checksums, owners[part]);
    if (right < 0) {
      return remoteError(ErrorCode::ResultsDiffer, "the results of ", what,
                         " differ among ranks, and no more than half of them agree, so that ",
                         "nobody can tell who is right; repeat it with three ranks or more (TUTTI_CHECK_RESULTS)");
    }
    std::vector<int> wrong;
    for (size_t rank = 0; rank < checksums.size(); ++rank) {
      if (checksums[rank] != checksums[static_cast<size_t>(right)]) wrong.push_back(static_cast<int>(rank));
    }
    return remoteError(ErrorCode::ResultsDiffer, "the result of ", what, " on ", wrong.size() == 1 ? "rank " : "ranks ",
                       listRanks(wrong), " is not that of rank ", right,
                       owners[part] >= 0 ? ", whose data it is" : " and most others",
                       ": it was changed behind the checks of links; look at the memory and the cores of that host "
                       "(TUTTI_CHECK_RESULTS)");
  }
  return {};
}

}  // namespace tutti
