// Measuring links of this machine with real channels: two ranks of a private communicator inside this process.
#pragma once

#include <memory>

#include "src/calibrate/measure.hpp"

namespace tutti {

/// Probes for shared memory between threads, as between processes, and tcp over loopback.  What cannot be set up here
/// is left out.  The probes own what they need.
LinkProbes machineProbes();

}  // namespace tutti
