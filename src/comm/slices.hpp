// The largest messages of a communicator: functions of what all ranks know alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.hpp"
#include "src/collective/call.hpp"
#include "src/comm/peer_descriptor.hpp"
#include "src/comm/settings.hpp"

namespace tutti {

/// Bytes of the largest message on any link.  Errors: those of TUTTI_SLOT_BYTES.
Result<size_t> chooseSliceBytes(const std::vector<PeerDescriptor>& descriptors, const CommSettings& settings);

/// What becomes of what is sent.
enum class SliceUse : uint8_t {
  Copied,
  SummedInBlocks,  // AllReduce, ReduceScatter: ranks are all at work at once
  SummedInChain,   // Reduce: each rank waits for its slice of the one before
};
SliceUse sliceUse(const Call& call);

/// Bytes of the largest messages where all links are sockets of one host.
struct SocketSlices {
  size_t copied = 0, inBlocks = 0, inChain = 0;

  size_t of(SliceUse use) const {
    return use == SliceUse::Copied ? copied : use == SliceUse::SummedInBlocks ? inBlocks : inChain;
  }
};
/// sliceBytes: chooseSliceBytes().  shareCores: there are more ranks than cores.
SocketSlices socketSlices(size_t sliceBytes, bool shareCores);

}  // namespace tutti
