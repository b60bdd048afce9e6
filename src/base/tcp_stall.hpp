// Whether a TCP connection has fallen silent: a cable that was pulled says nothing, and the system waits for long.
#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

/// For how long nothing has come back on a connection whose system has repeated in vain, in milliseconds; none: it is
/// not silent, or has nothing to be answered.  A peer that is stopped is not silent, as its system answers.
std::optional<int64_t> tcpSilentMs(int fd);

/// How long after a word is sent its silence shows at the latest where acknowledgements usually come at once.
inline constexpr int64_t kTcpSilenceShowsNs = 700'000'000;

}  // namespace tutti
