#include "src/collective/call.hpp"

#include <algorithm>

#include "src/collective/geometry.hpp"

namespace tutti {

namespace {

/// Bytes from the start of a buffer to the end of its last element.
size_t bytesOf(const Call& call, const Side& side, int chunks, std::vector<size_t> Counts::*blockCounts,
               std::vector<size_t> Counts::*blockDispls) {
  size_t elements = static_cast<size_t>(chunks) * call.count;
  if (call.counts && side.content == Content::Blocks) {
    const auto &counts = *call.counts.*blockCounts, &displs = *call.counts.*blockDispls;
    elements = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) elements = std::max(elements, displs[i] + counts[i]);
    }
  }
  return elements * dataTypeBytes(call.dtype);
}

}  // namespace

size_t inPlaceOffset(const Call& call, int rank) {
  const InPlace how = inPlaceOf(call.collective);
  if (how == InPlace::Same) return 0;
  const auto own = static_cast<size_t>(rank);
  const bool inOutput = how == InPlace::InputInOutput;
  size_t elements = own * call.count;
  if (call.counts) elements = (inOutput ? call.counts->recvDispls : call.counts->sendDispls)[own];
  const size_t bytes = elements * dataTypeBytes(call.dtype);
  return inOutput ? 0 - bytes : bytes;
}

Extents extentsOf(const Call& call, int rank, int nRanks) {
  const Collective c = call.collective;
  Extents extents;
  extents.sendBytes = bytesOf(call, geometryOf(c).input, inputChunks(c, rank, call.root, nRanks), &Counts::sendCounts,
                              &Counts::sendDispls);
  extents.recvBytes = bytesOf(call, geometryOf(c).output, outputChunks(c, rank, call.root, nRanks), &Counts::recvCounts,
                              &Counts::recvDispls);
  if (mayBeInPlace(c, rank, call.root)) extents.inPlaceOffset = inPlaceOffset(call, rank);
  return extents;
}

size_t largestBlock(const Call& call) {
  size_t largest = call.count;
  if (!call.counts) return largest;
  for (const std::vector<size_t>* counts : {&call.counts->sendCounts, &call.counts->recvCounts}) {
    for (const size_t count : *counts) largest = std::max(largest, count);
  }
  return largest;
}

std::string callName(const Call& call) {
  switch (call.kind) {
    case CallKind::Send: return "Send";
    case CallKind::Recv: return "Recv";
    case CallKind::Collective: break;
  }
  return std::string(collectiveName(call.collective)) + (call.counts ? "v" : "");
}

bool callReduces(const Call& call) { return call.kind == CallKind::Collective && reduces(call.collective); }
bool callIsRooted(const Call& call) { return call.kind == CallKind::Collective && isRooted(call.collective); }

}  // namespace tutti
