// A transport for tests: messages wait in boxes of this process until the other rank, a thread, takes them.
//
// It is what somebody who adds a transport has to write: an Endpoint, a Transport and an entry; tests list it in a
// table of their own.  As an adapter that puts into remote memory it wants memory registered: a posted send is copied
// into the memory of the posted receive, whoever comes second; from other memory messages are polled.
#pragma once

#include "transport/entry.hpp"

namespace tutti::test {

inline constexpr LinkProfile kMailbox = {
    .key = "mailbox", .memory = {.pinned = false}, .puts = true, .registers = true, .mostRequests = 32};

/// Posted sends that have been put into posted receives, in this process.
uint64_t mailboxPuts();

/// Of the messages that are copied into boxes from now on one bit of number `message` (from 0) is flipped, as memory
/// that two ranks share may do; a negative one: of none.
void damageMailbox(int64_t message);

extern const TransportEntry kMailboxEntry;

}  // namespace tutti::test
