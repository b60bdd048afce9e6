// A transport for tests: messages wait in boxes of this process until the other rank, a thread, takes them.
//
// It is what somebody who adds a transport has to write: a Channel, a Transport and an entry; tests list it in a table
// of their own.
#pragma once

#include "transport/entry.hpp"

namespace tutti::test {

inline constexpr LinkProfile kMailbox = {.key = "mailbox"};

extern const TransportEntry kMailboxEntry;

}  // namespace tutti::test
