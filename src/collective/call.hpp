// One call of the API, as data: what a group collects and a stream carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/types.hpp"

namespace tutti {

enum class CallKind : uint8_t { Collective, Send, Recv };

/// Counts and displacements of a v form, by rank, in elements: of the blocks of the input (send) and of the output
/// (recv).  Empty where this rank has no buffer of blocks there.
struct Counts {
  std::vector<size_t> sendCounts, sendDispls;
  std::vector<size_t> recvCounts, recvDispls;
  /// [from * nRanks + to]: what all ranks send, where every rank has to know that (learnAllCounts); else empty.
  std::vector<size_t> all;
  bool operator==(const Counts&) const = default;
};

struct CustomOperator;

struct Call {
  CallKind kind = CallKind::Collective;
  Collective collective = Collective::AllReduce;
  const void* sendbuff = nullptr;
  void* recvbuff = nullptr;
  size_t count = 0;  // as in tutti.h; v forms: of a buffer of one block
  tuttiDataType_t dtype = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;                                  // of a collective; the peer of Send and Recv
  std::shared_ptr<const Counts> counts;          // v forms only
  int64_t enqueuedNs = 0;                        // CLOCK_MONOTONIC when it was made on a stream; 0: it was not
  bool byLibrary = false;                        // the library's own, among the user's: not of the API
  std::shared_ptr<const CustomOperator> custom;  // of op, where that is a made one; kept until the call is done
};

/// A rank's buffers in a collective.
struct Extents {
  size_t sendBytes = 0;  // 0: the rank has none, or nothing is in it
  size_t recvBytes = 0;
  size_t inPlaceOffset = 0;  // recvbuff - sendbuff (modulo 2^64), where both are there and in place
  bool both() const { return sendBytes > 0 && recvBytes > 0; }
};
Extents extentsOf(const Call& call, int rank, int nRanks);
/// Extents::inPlaceOffset, of a rank that has both buffers.
size_t inPlaceOffset(const Call& call, int rank);
/// Elements of the largest block that this rank knows of, or of the vector.
size_t largestBlock(const Call& call);

/// How two buffers lie to each other.
enum class Placement : uint8_t { Apart, InPlace, Wrong };
inline Placement placed(const Extents& extents, const void* sendbuff, const void* recvbuff) {
  const auto send = reinterpret_cast<uintptr_t>(sendbuff);
  const auto recv = reinterpret_cast<uintptr_t>(recvbuff);
  if (recv - send == extents.inPlaceOffset) return Placement::InPlace;
  return send + extents.sendBytes <= recv || recv + extents.recvBytes <= send ? Placement::Apart : Placement::Wrong;
}

/// "AllReduce", "Send", "AllToAllv": the name of the API function without its prefix.
std::string callName(const Call& call);
bool callReduces(const Call& call);
bool callIsRooted(const Call& call);

}  // namespace tutti
