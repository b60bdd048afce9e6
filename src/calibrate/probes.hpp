// Measuring links of this machine with real endpoints: two ranks of a private communicator inside this process.
#pragma once

#include <optional>

#include "src/calibrate/measure.hpp"
#include "transport/table.hpp"

namespace tutti {

/// Probes for every kind of link that the transports of `table` make between two ranks of this host: of two processes
/// first, which most programs have, then of one.  What cannot be set up here is left out.  The probes own what they
/// need.
LinkProbes machineProbes(TransportTable table);

/// By the first transport of `table` that two processes share memory with, in about 2 ms.  Nothing: there is none, or
/// something failed.
std::optional<CoreDistance> measureCoreDistance(TransportTable table);

/// What a start looks at before it relies on figures of an earlier one; each at most once a minute.
MachineGlance glanceAtMachine(TransportTable table);

}  // namespace tutti
