#include "src/net_plugin/handle.hpp"

#include <cstring>

namespace tutti::net_plugin {
namespace {

constexpr uint64_t kMagic = 0x0031'6974'7475'7401;  // with a version

struct Layout {
  uint64_t magic;
  uint64_t dial;
  unsigned char secret[32];
  uint32_t slotBytes;
  uint8_t nSockets;
  uint8_t verbs;
  uint16_t addressBytes;
  char addresses[72];
};
static_assert(sizeof(Layout) == kHandleBytes);

constexpr uint32_t kMostSlotBytes = 1 << 26;
constexpr uint8_t kMostSockets = 16;

}  // namespace

void encodeHandle(const Handle& handle, std::span<std::byte, kHandleBytes> into) {
  Layout layout{};
  layout.magic = kMagic;
  std::memcpy(layout.secret, handle.secret.data(), sizeof layout.secret);
  layout.slotBytes = handle.slotBytes;
  layout.nSockets = static_cast<uint8_t>(handle.nSockets);
  layout.verbs = handle.verbs ? 1 : 0;
  std::string addresses = handle.addresses;
  while (addresses.size() > sizeof layout.addresses) {
    const size_t last = addresses.rfind(',');
    addresses.resize(last == std::string::npos ? 0 : last);
  }
  layout.addressBytes = static_cast<uint16_t>(addresses.size());
  std::memcpy(layout.addresses, addresses.data(), addresses.size());
  std::memcpy(into.data(), &layout, sizeof layout);
  wipe(layout.secret, sizeof layout.secret);
}

Result<Handle> decodeHandle(std::span<const std::byte, kHandleBytes> from) {
  Layout layout;
  std::memcpy(&layout, from.data(), sizeof layout);
  const bool good = layout.magic == kMagic && layout.addressBytes > 0 &&
                    layout.addressBytes <= sizeof layout.addresses && layout.nSockets >= 1 &&
                    layout.nSockets <= kMostSockets && layout.verbs <= 1 && layout.slotBytes <= kMostSlotBytes &&
                    (layout.verbs == 1 || layout.slotBytes > 0);
  if (!good)
    return invalidArgument(ErrorCode::NetPluginArgument,
                           "not a handle of this plugin; all ranks must load the same one: ", toHex(from.data(), 16));
  Handle handle;
  handle.verbs = layout.verbs == 1;
  handle.nSockets = layout.nSockets;
  handle.slotBytes = layout.slotBytes;
  handle.secret = Secret(std::span(layout.secret));
  wipe(layout.secret, sizeof layout.secret);
  handle.addresses.assign(layout.addresses, layout.addressBytes);
  return handle;
}

uint64_t dialOf(std::span<const std::byte, kHandleBytes> handle) {
  uint64_t number = 0;
  std::memcpy(&number, handle.data() + offsetof(Layout, dial), sizeof number);
  return number;
}

void setDial(std::span<std::byte, kHandleBytes> handle, uint64_t number) {
  std::memcpy(handle.data() + offsetof(Layout, dial), &number, sizeof number);
}

}  // namespace tutti::net_plugin
