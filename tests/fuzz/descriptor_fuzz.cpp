// Fuzzes what a rank reads of every other at init: peer descriptors.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/comm/peer_descriptor.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto descriptor = tutti::decodeDescriptor(1, bytes);
  if (!descriptor.ok()) return 0;
  // What is understood comes out the same again.
  const auto again = tutti::decodeDescriptor(1, tutti::encodeDescriptor(*descriptor));
  if (!again.ok() || tutti::encodeDescriptor(*again) != tutti::encodeDescriptor(*descriptor)) std::abort();
  (void)tutti::compareReleases({*descriptor, *again}, 0);
  (void)tutti::nodesOf({*descriptor, *again});
  (void)tutti::oversubscribed({*descriptor, *again}, descriptor->kernel);
  return 0;
}
