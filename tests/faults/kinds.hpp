// Kinds of calls that can be made to fail.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::test {

enum class FaultKind : uint8_t { Allocation, Map, SharedMemory, Socket, Send, Receive, Open, Events, Thread, Random };
inline constexpr std::array<const char*, 10> kFaultNames = {"allocation", "mmap", "memfd",   "socket", "send",
                                                            "receive",    "open", "eventfd", "thread", "random"};

}  // namespace tutti::test
