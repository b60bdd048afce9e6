// Measuring links of this machine with real endpoints: two ranks of a private communicator inside this process.
#pragma once

#include "src/calibrate/measure.hpp"
#include "transport/table.hpp"

namespace tutti {

/// Probes for every kind of link that the transports of `table` make between two ranks of this host: of two processes
/// first, which most programs have, then of one.  What cannot be set up here is left out.  The probes own what they
/// need.
LinkProbes machineProbes(TransportTable table);

}  // namespace tutti
