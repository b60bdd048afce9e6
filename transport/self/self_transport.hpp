// A rank's endpoint to itself: for send and receive to self in one group.
#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace tutti {

/// One endpoint object is both ends: what is sent comes back by receive().  It has room for one copied message of up to
/// slotBytes, and for kSelfMessages messages in all (offered ones and tokens take no room but their place).  What is
/// larger than slotBytes must be offered: any memory can be, and send() of it is a mistake.
inline constexpr size_t kSelfMessages = 8;
std::unique_ptr<Transport> createSelfTransport(int rank, size_t slotBytes);

}  // namespace tutti
