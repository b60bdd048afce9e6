// Prices of the links between a communicator's hosts: measured when its ranks join (TUTTI_LINK_PROBE), and agreed on by
// all.
//
// The first rank of every host probes the way to the next host while the one before probes the way to it, all at once:
// every cable is as busy as in most collectives, and the time taken does not depend on how many hosts there are.
// Ranks rest between messages, as hosts may be parts of one machine and share its cores.
#pragma once

#include <optional>
#include <vector>

#include "src/base/status.hpp"
#include "src/calibrate/host_link.hpp"

namespace tutti {

class Comm;
class Links;
struct PeerDescriptor;

/// Words of TUTTI_LINK_PROBE.  Auto: links of sockets between two interfaces of which one's speed is not known
/// (knownMbps), unless several are used at once, ranks only have different TUTTI_HOSTID, or figures are built in.
enum class LinkProbing : uint8_t { Auto, Off, Always };

/// What goes into a rank's PeerDescriptor::pathsMbps.
uint32_t mbpsToOthers(const std::vector<PeerDescriptor>& ranks, const PeerDescriptor& self, uint32_t paths);
/// Whether Auto measures the link between two ranks.
bool isUnknown(const PeerDescriptor& a, const PeerDescriptor& b, const LinkProfile& link);

/// The interfaces that links between hosts go by at once, and what those carry: of the host that has the least.
/// One whose speed cannot be believed carries 0.
struct PathUse {
  uint32_t paths = 1;
  uint32_t mbps = 0;  // 0: not known
};
/// The same on all ranks, once links have met.  {1, 0}: there is one host, or a link that goes by other adapters.
PathUse pathUse(const Links& links);

/// The same on all ranks; none: nothing is to be measured, or nothing could be.  Ranks that have it from their parent
/// take it from there.  Collective, once links have met.  A link that does not answer, or takes longer than 80 ms
/// (Always: 500), is left out, for calls may do without it.  Errors: those of the control plane; InvalidUsage:
/// TUTTI_LINK_PROBE.
Result<std::optional<HostLinkFigures>> measureHostLinks(Comm& comm);

}  // namespace tutti
