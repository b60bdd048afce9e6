#include "transport/shm/layout.hpp"

#include <algorithm>

namespace tutti::shm {
namespace {

// A process maps one segment of each rank of its host, and has 2^47 bytes of addresses.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 40;

}  // namespace

Result<Layout> Layout::fit(int nRanks, int lanes, int64_t slots, int64_t slotBytes, uint32_t lines) {
  if (nRanks < 1 || lanes < 1 || slots < 1 || slots > 4096 || slotBytes < 1 || slotBytes > (int64_t{1} << 32)) {
    return invalidUsage(ErrorCode::VariableOutOfRange, "shm: cannot lay out ", nRanks, " ranks, ", lanes, " lanes, ",
                        slots, " slots of ", slotBytes, " bytes");
  }
  Layout layout{static_cast<uint32_t>(nRanks), 1, static_cast<uint32_t>(slots), static_cast<uint64_t>(slotBytes),
                lines};
  const uint64_t oneLane = layout.totalBytes();
  if (oneLane > kMaxSegmentBytes) {
    return invalidUsage(ErrorCode::VariableOutOfRange, "shm: TUTTI_SLOTS=", slots,
                        " times TUTTI_SLOT_BYTES=", slotBytes, " is too large for ", nRanks, " ranks");
  }
  layout.lanes = static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint64_t>(lanes), kMaxSegmentBytes / oneLane));
  return layout;
}

size_t Layout::outboxOffset(int lane) const {
  return kHeaderBytes + kBoards * boardBytes() + static_cast<size_t>(lane) * outboxBytes();
}

size_t Layout::inboxOffset(int peer, int lane) const {
  const auto p = static_cast<size_t>(peer);
  return outboxOffset(static_cast<int>(lanes)) + (p * lanes + static_cast<size_t>(lane)) * inboxStride();
}

size_t Layout::totalBytes() const {
  // Whole pages, so that what is mapped and what the file has are the same.
  return (inboxOffset(static_cast<int>(nRanks), 0) + 4095) / 4096 * 4096;
}

}  // namespace tutti::shm
