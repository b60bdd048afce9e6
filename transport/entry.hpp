// How a transport is listed (transport/table.cpp): its name, the kinds of links that it makes, and how one is created.
//
// Each folder defines its own entry in entry.cpp; nothing outside the folder but the table knows it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "src/cost/link_cost.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// What a transport is told of its rank and of its communicator.
struct TransportContext {
  PeerInfo self;
  int nRanks = 1;
  int localRank = 0;         // of self, among the communicator's ranks of its host
  int lanes = 64;            // the most endpoints to one peer
  size_t sliceBytes = 0;     // the most bytes of one message: endpoints must have slots of so many or more
  bool sharedCores = false;  // the host has fewer cores than ranks
  FdExchange& descriptors;   // these two outlive the transport
  StreamExchange& streams;
  /// Of the rank's device; null: it is on none, or its memory is not for adapters.
  std::shared_ptr<const AdapterAccess> device;
};

/// A constant.
struct TransportEntry {
  std::string_view name;  // as in TUTTI_TRANSPORTS
  /// The kinds of links between two ranks, the faster ones first.  None: it joins a rank with itself, and cannot be
  /// excluded.
  std::span<const LinkDescription> links;
  /// Reads its own variables.  Errors: InvalidUsage naming the variable; SystemError.
  Result<std::unique_ptr<Transport>> (*create)(const TransportContext&);
  /// Allowed only where TUTTI_TRANSPORTS names it: what it loads is not for every program.
  bool onlyNamed = false;

  /// Whether it may join ranks of different hosts, so that config.netName may ask for it.
  bool isNetwork() const;
  /// Whether what it sends between hosts, if anything, can be encrypted.
  bool canEncrypt() const;
  /// Whether it joins ranks of a host by memory that both see.
  bool sharesMemory() const;
};

}  // namespace tutti
