// Who carries out the calls of a communicator with CUDA ranks.
#pragma once

#include <cstdint>

namespace tutti {

/// How calls of CUDA ranks are carried out; the same on all of them.
enum class ExecutorKind : uint8_t {
  None,      // no rank is on a CUDA device
  Stream,    // the caller enqueues all of it: all ranks are on CUDA devices of one host
  Resident,  // one kernel for all ranks of a device, in whose blocks nothing waits but for blocks that are there, too
  Proxy,     // a thread of the rank's, and each edge of a plan goes by the link that its two ranks have: any ranks
};

}  // namespace tutti
