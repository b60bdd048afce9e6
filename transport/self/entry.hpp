// A rank's way to itself in the table of transports.
#pragma once

#include "transport/entry.hpp"

namespace tutti {

extern const TransportEntry kSelfEntry;

}  // namespace tutti
