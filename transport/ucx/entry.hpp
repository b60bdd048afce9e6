// ucx in the table of transports.
#pragma once

#include "transport/entry.hpp"

namespace tutti {

/// By what UCX finds inside a host, and between hosts.
inline constexpr LinkProfile kUcxLocal = {
    .key = "ucx-local", .puts = true, .flushes = true, .registers = true, .mostRequests = 64};
inline constexpr LinkProfile kUcxRemote = {
    .key = "ucx-remote", .betweenHosts = true, .puts = true, .flushes = true, .registers = true, .mostRequests = 64};

extern const TransportEntry kUcxEntry;

}  // namespace tutti
