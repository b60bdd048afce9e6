// The handle of a listener: 128 bytes that NCCL carries to those who connect.
#pragma once

#include <span>
#include <vector>

#include "src/control/handshake.hpp"
#include "src/control/session/address.hpp"

namespace tutti::net_plugin {

inline constexpr size_t kHandleBytes = 128;

/// A value.
struct Handle {
  bool verbs = false;        // else tcp
  uint32_t nSockets = 1;     // of a connection
  uint32_t slotBytes = 0;    // of tcp
  Secret secret{};           // proves that a dialer has the handle
  ControlAddress addresses;  // as many as there is room for
};

/// addresses that do not fit are left out from their end.
void encodeHandle(const Handle& handle, std::span<std::byte, kHandleBytes> into);
/// Errors: InvalidArgument: not a handle of this plugin.
Result<Handle> decodeHandle(std::span<const std::byte, kHandleBytes> from);

/// A dial that is under way leaves a number in the handle that it was begun with; 0: none has begun.
uint64_t dialOf(std::span<const std::byte, kHandleBytes> handle);
void setDial(std::span<std::byte, kHandleBytes> handle, uint64_t number);

}  // namespace tutti::net_plugin
