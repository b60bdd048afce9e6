// Devices and links from a file in NCCL's topology format: GPUs are PCI nodes of class 0x0302, with NVLinks in them.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

/// The value of name="..." in a tag, or "".
std::string attribute(const std::string& tag, const std::string& name) {
  const size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 3;
  return tag.substr(begin, tag.find('"', begin) - begin);
}

}  // namespace

Topology readTopology(const std::string& path) {
  std::ifstream file(path);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  Topology topology;
  int cpu = -1;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::string tag = text.substr(at, text.find('>', at) - at);
    if (tag.starts_with("<cpu")) ++cpu;
    if (tag.starts_with("<pci") && attribute(tag, "class").starts_with("0x0302")) {
      topology.devices.push_back({attribute(tag, "busid"), cpu, {}});
    }
    const bool inDevice = tag.starts_with("<nvlink") && !topology.devices.empty();
    if (inDevice) topology.devices.back().links.push_back(attribute(tag, "target"));
  }
  if (topology.devices.empty()) complain(path + " describes no devices");
  return topology;
}

bool Topology::reaches(int device, int peer) const {
  const Device& a = devices[static_cast<size_t>(device)];
  const Device& b = devices[static_cast<size_t>(peer)];
  if (a.cpu == b.cpu) return true;
  for (const std::string& link : a.links) {
    if (link == b.busId) return true;
    for (const std::string& other : b.links) {
      if (link == other) return true;  // a switch
    }
  }
  return false;
}

}  // namespace tutti::fake
