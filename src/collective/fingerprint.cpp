#include "src/collective/fingerprint.hpp"

#include <cstdio>

#include "src/base/text.hpp"
#include "src/collective/geometry.hpp"

namespace tutti {

Fingerprint makeFingerprint(const CallParts& p) {
  const uint64_t head = (uint64_t{p.sequence & 0xffffff} << 40) | (uint64_t{p.kind & 31} << 35) |
                        (uint64_t{p.dtype & 31} << 30) | (uint64_t{p.op & 63} << 24) | (p.root & 0xffffff);
  return {head, p.count};
}

CallParts partsOf(const Fingerprint& f) {
  CallParts p;
  p.sequence = static_cast<uint32_t>(f.head >> 40);
  p.kind = static_cast<uint32_t>(f.head >> 35) & 31;
  p.dtype = static_cast<uint32_t>(f.head >> 30) & 31;
  p.op = static_cast<uint32_t>(f.head >> 24) & 63;
  p.root = static_cast<uint32_t>(f.head) & 0xffffff;
  p.count = f.count;
  return p;
}

namespace {

/// "count 5, "; a v form has as many counts as ranks, of which a fingerprint has no more than a checksum.
std::string countOf(const CallParts& p, bool byRank) {
  if (!byRank) return cat("count ", p.count, ", ");
  if (p.count == 0) return "";
  char checksum[24];
  std::snprintf(checksum, sizeof checksum, "%llx", static_cast<unsigned long long>(p.count));
  return cat("counts with checksum ", checksum, ", ");
}

}  // namespace

std::string describeCall(const Fingerprint& f) {
  const CallParts p = partsOf(f);
  const std::string type = validDataType(static_cast<int>(p.dtype))
                               ? dataTypeName(static_cast<tuttiDataType_t>(p.dtype))
                               : cat("type ", p.dtype);
  if (p.kind == kKindPointToPoint) {
    return cat("Send/Recv number ", p.sequence, " of this pair (count ", p.count, ", ", type, ")");
  }
  const bool byRank = p.kind >= kKindCounts;
  const uint32_t kind = byRank ? p.kind - kKindCounts : p.kind;
  if (kind >= static_cast<uint32_t>(kNumCollectives)) return cat("an unknown operation ", p.kind);
  const auto collective = static_cast<Collective>(kind);
  std::string text = cat(collectiveName(collective), byRank ? "v" : "", " number ", p.sequence);
  if (collective == Collective::Barrier) return text;
  text += cat(" (", countOf(p, byRank), type);
  if (reduces(collective)) {
    text += cat(", ", p.op < tuttiNumOps    ? redOpName(static_cast<tuttiRedOp_t>(p.op))
                      : p.op == tuttiNumOps ? "premulsum"
                                            : "user operator");
  }
  if (isRooted(collective)) text += cat(", root ", p.root);
  if (!isRooted(collective) && p.root == kByLibrary) text += ", the library's own";
  return text + ")";
}

}  // namespace tutti
