#include "transport/verbs/port_choice.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>

#include "src/base/folder.hpp"
#include "src/base/text.hpp"

namespace tutti::verbs {

std::vector<size_t> orderOfPorts(std::span<const PortFacts> ports, std::span<const int> nodes, int localRank,
                                 uint32_t rails) {
  std::vector<size_t> order(ports.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (ports.empty()) return order;
  const auto listedAs = [&](size_t port) { return ports[port].listed; };
  if (std::ranges::any_of(order, [&](size_t port) { return listedAs(port) != listedAs(0); })) {
    std::ranges::stable_sort(order, {}, listedAs);
    return order;
  }
  const auto isNear = [&](size_t port) {
    const int node = ports[port].numaNode;
    return node < 0 || nodes.empty() || std::ranges::find(nodes, node) != nodes.end();
  };
  std::stable_partition(order.begin(), order.end(), isNear);
  const PortFacts& first = ports[order.front()];
  const bool someNear = isNear(order.front());
  const auto others = std::stable_partition(order.begin(), order.end(), [&](size_t port) {
    const PortFacts& facts = ports[port];
    return isNear(port) == someNear && facts.fabric == first.fabric && facts.speed == first.speed;
  });
  const auto alike = static_cast<size_t>(others - order.begin());
  const size_t turn = static_cast<size_t>(localRank) * rails % alike;
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn), others);
  return order;
}

std::vector<int> nodesOfThread() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::set<int> nodes;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const auto names = namesIn(cat("/sys/devices/system/cpu/cpu", cpu));
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      int node = -1;
      if (name.starts_with("node")) std::from_chars(name.data() + 4, name.data() + name.size(), node);
      if (node >= 0) nodes.insert(node);
    }
  }
  return {nodes.begin(), nodes.end()};
}

uint64_t networkOf(const Gid& gid) {
  if (gid.isLinkLocal()) return gid.raw.global.interface_id;
  if (!gid.isIpv4()) return gid.raw.global.subnet_prefix;
  in_addr_t address = 0, mask = ~in_addr_t{0};
  std::memcpy(&address, gid.raw.raw + 12, sizeof address);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return address;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const auto of = [](const sockaddr* any) { return reinterpret_cast<const sockaddr_in*>(any)->sin_addr.s_addr; };
    if (of(one->ifa_addr) == address) mask = of(one->ifa_netmask);
  }
  freeifaddrs(all);
  return uint64_t{mask} << 32 | (address & mask);
}

int nodeOfAdapter(const std::string& device) {
  std::ifstream file(cat("/sys/class/infiniband/", device, "/device/numa_node"));
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace tutti::verbs
