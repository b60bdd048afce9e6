// The largest messages of a communicator: functions of what all ranks know alike.
#pragma once

#include <cstddef>
#include <vector>

#include "src/base/status.hpp"
#include "src/comm/peer_descriptor.hpp"
#include "src/comm/settings.hpp"

namespace tutti {

/// Bytes of the largest message on any link.  Errors: those of TUTTI_SLOT_BYTES.
Result<size_t> chooseSliceBytes(const std::vector<PeerDescriptor>& descriptors, const CommSettings& settings);

/// Bytes of the largest message of calls that only copy, if all links are sockets of one host.  sliceBytes: of others.
size_t socketCopyBytes(size_t sliceBytes);

}  // namespace tutti
