// ncclnet in the table of transports.
#pragma once

#include "transport/entry.hpp"
#include "transport/ncclnet/abi.hpp"

namespace tutti {

/// Through the plugin inside a host, and between hosts.
inline constexpr LinkProfile kNcclnetLocal = {.key = "ncclnet-local", .mostRequests = ncclnet::kMostRequests};
inline constexpr LinkProfile kNcclnetRemote = {
    .key = "ncclnet-remote", .betweenHosts = true, .mostRequests = ncclnet::kMostRequests};

extern const TransportEntry kNcclnetEntry;

}  // namespace tutti
