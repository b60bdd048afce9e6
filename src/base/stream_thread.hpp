// Whose thread this is.
#pragma once

namespace tutti {

/// On the thread of a host stream (src/device/host/host_stream.hpp), which sets it: how many CPUs it may run on, 1 or
/// more. Its rank has another thread beside it.  0 on other threads.
inline thread_local int cpusOfStreamThread = 0;

}  // namespace tutti
