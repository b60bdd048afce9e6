// Fuzzes what reads texts and bytes from outside at the start: unique ids, control addresses, wrapped infos, node
// lists.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/control/launch/launch.hpp"
#include "src/control/session/address.hpp"
#include "src/control/session/presence.hpp"
#include "src/control/session/unique_id.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tuttiUniqueId id{};
  std::memcpy(id.internal, data, std::min(size, sizeof id.internal));
  // What is accepted comes out the same again.
  if (const tutti::Result<tutti::MeetingPlace> place = tutti::decodeUniqueId(id); place.ok()) {
    const tuttiUniqueId again = tutti::encodeUniqueId(*place);
    if (std::memcmp(&again, &id, sizeof id) != 0) std::abort();
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto addresses = tutti::parseControlAddress(text); addresses.ok()) {
    const auto again =
        tutti::parseControlAddress(tutti::makeControlAddress(*addresses, tutti::kControlAddressMostBytes));
    if (!again.ok() || again->size() != addresses->size()) std::abort();
  }
  if (const auto info = tutti::unwrapInfo(text); info.ok()) {
    if (tutti::wrapInfo(info->presence, info->blob) != text) std::abort();
  }
  (void)tutti::launch::firstSlurmHost(text);
  return 0;
}
