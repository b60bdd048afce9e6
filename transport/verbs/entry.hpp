// verbs in the table of transports.
#pragma once

#include "transport/entry.hpp"

namespace tutti {

/// Through the adapter of one host and back, and between hosts.
inline constexpr LinkProfile kVerbsLocal = {
    .key = "verbs-local", .puts = true, .flushes = true, .registers = true, .mostRequests = 64};
inline constexpr LinkProfile kVerbsRemote = {
    .key = "verbs-remote", .betweenHosts = true, .puts = true, .flushes = true, .registers = true, .mostRequests = 64};

extern const TransportEntry kVerbsEntry;

}  // namespace tutti
