// tcp in the table of transports.
#pragma once

#include "transport/entry.hpp"

namespace tutti {

/// Over loopback, and between hosts.
inline constexpr LinkProfile kTcpLocal = {
    .key = "tcp-local", .encrypts = true, .systemCalls = true, .mostRequests = 256};
inline constexpr LinkProfile kTcpRemote = {.key = "tcp-remote",
                                           .betweenHosts = true,
                                           .encrypts = true,
                                           .workOf = kTcpLocal.key,
                                           .channelGBps = 3,
                                           .spreadsOverPaths = true,
                                           .mostRequests = 256};

extern const TransportEntry kTcpEntry;

}  // namespace tutti
