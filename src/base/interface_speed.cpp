#include "src/base/interface_speed.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "src/base/folder.hpp"
#include "src/base/text.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// Drivers of adapters that exist in a virtual machine only.  The speed that these state is made up.
constexpr std::string_view kVirtualDrivers[] = {"virtio_net", "vmxnet3", "hv_netvsc", "vif", "e1000"};
constexpr int kMostLayers = 4;  // a VLAN on a bond, and some more

std::vector<std::string> filesOf(const std::string& folder) {
  return namesIn(folder).value_or(std::vector<std::string>());
}

bool isAdapter(const std::string& device) {
  std::error_code error;
  if (!fs::exists(device, error)) return false;
  const std::string driver = fs::read_symlink(device + "/driver", error).filename().string();
  return std::ranges::find(kVirtualDrivers, driver) == std::end(kVirtualDrivers);
}

/// Whether there is nothing but adapters below.
bool isReal(const std::string& interface, const std::string& folder, int layers) {
  constexpr std::string_view kLower = "lower_";
  const std::string own = cat(folder, "/", interface);
  std::error_code error;
  if (fs::exists(own + "/device", error)) return isAdapter(own + "/device");
  bool any = false;
  for (const std::string& name : filesOf(own)) {
    if (!name.starts_with(kLower)) continue;
    any = true;
    if (layers == 0 || !isReal(name.substr(kLower.size()), folder, layers - 1)) return false;
  }
  return any;
}

bool isUp(const std::string& interface, const std::string& folder) {
  std::string state;
  std::ifstream(cat(folder, "/", interface, "/operstate")) >> state;
  return state == "up";
}

}  // namespace

uint32_t statedMbps(const std::string& interface, const std::string& folder) {
  constexpr int64_t kMost = 10'000'000;
  int64_t mbps = 0;  // -1, or an error, where there is none
  std::ifstream(cat(folder, "/", interface, "/speed")) >> mbps;
  return mbps > 0 && mbps < kMost ? static_cast<uint32_t>(mbps) : 0;
}

uint32_t knownMbps(const std::string& interface, const std::string& folder) {
  return isReal(interface, folder, kMostLayers) ? statedMbps(interface, folder) : 0;
}

uint32_t fastestMbps(const std::string& folder) {
  uint32_t known = 0, stated = 0;
  for (const std::string& interface : filesOf(folder)) {
    if (interface == "lo" || !isUp(interface, folder)) continue;
    known = std::max(known, knownMbps(interface, folder));
    stated = std::max(stated, statedMbps(interface, folder));
  }
  return known > 0 ? known : stated;
}

}  // namespace tutti
