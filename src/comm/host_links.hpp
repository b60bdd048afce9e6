// Prices of the links between a communicator's hosts: measured when its ranks join (TUTTI_LINK_PROBE), and agreed on by
// all.
//
// The first rank of every host probes the way to the next host while the one before probes the way to it, all at once:
// every cable is as busy as in most collectives, and the time taken does not depend on how many hosts there are.
#pragma once

#include <optional>

#include "src/base/status.hpp"
#include "src/calibrate/host_link.hpp"

namespace tutti {

class Comm;
class Links;

/// Words of TUTTI_LINK_PROBE.  Auto: not where ranks only have different TUTTI_HOSTID, nor with built-in figures.
enum class LinkProbing : uint8_t { Auto, Off, Always };

/// The interfaces that links between hosts go by at once, and what those carry: of the host that has the least.
struct PathUse {
  uint32_t paths = 1;
  uint32_t mbps = 0;  // 0: not known
};
/// The same on all ranks, once links have met.  1: there is one host, or a link that goes by one interface alone.
PathUse pathUse(const Links& links);

/// The same on all ranks; none: nothing is to be measured, or nothing could be.  Ranks that have it from their parent
/// take it from there.  Collective, once links have met.  A link that does not answer is left out, for calls may do
/// without it.  Errors: those of the control plane; InvalidUsage: TUTTI_LINK_PROBE.
Result<std::optional<HostLinkFigures>> measureHostLinks(Comm& comm);

}  // namespace tutti
