// The transports of this build.
#pragma once

#include <span>
#include <string>

#include "transport/entry.hpp"

namespace tutti {

/// In order of preference: two ranks are joined by the first that reaches.  Borrowed for as long as the process lives.
using TransportTable = std::span<const TransportEntry* const>;

/// All of this build.
TransportTable transports();

/// All kinds of links that a table's transports make, in its order.
LinkKinds linkKinds(TransportTable table = transports());

/// The kind with this key; none: no transport of the table makes such links.
std::optional<LinkProfile> findLink(std::string_view key, TransportTable table = transports());

const TransportEntry* findTransport(std::string_view name, TransportTable table = transports());

/// Names of transports that other builds have.  To exclude one is honoured by not having it.
bool isTransportElsewhere(std::string_view name);

/// "self, shm, tcp"; networks: of those only that join hosts.
std::string namesOf(TransportTable table, bool networks = false);

}  // namespace tutti
