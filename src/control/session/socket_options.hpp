// Options of the control plane's TCP sockets.
#pragma once

#include <cstdint>

namespace tutti {

/// What cannot be set is left as it is.
void setOption(int fd, int level, int name, int value);

/// Messages leave at once, and a host that is silent for timeoutMs counts as gone; 0: as long as the system waits.
void tuneControlSocket(int fd, int64_t timeoutMs);

}  // namespace tutti
