// Interfaces, the name of this host, and the limits of TCP.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "src/base/clock.hpp"
#include "src/base/config.hpp"
#include "src/base/text.hpp"
#include "src/control/session/interfaces.hpp"
#include "src/topology/sysfs.hpp"
#include "tools/doctor/checks.hpp"

namespace tutti::doctor {
namespace {

using topology::sysfs::line;
constexpr int64_t kSlowLookupNs = 1'000'000'000;
constexpr uint64_t kFastMbps = 10'000;      // from here on the usual limits of TCP's buffers are too small
constexpr uint64_t kWindowBytes = 4 << 20;  // 10 Gbit/s for 3 ms

/// "10.0.0.7", without the port.
std::string hostPart(const SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

uint64_t number(const std::string& path) {
  uint64_t value = 0;
  return parseNumber(line(path), &value) ? value : 0;
}

/// "eth0 (10.0.0.7; 25000 Mbit/s, MTU 9000)".
std::string describe(const std::string& root, const InterfaceAddress& a) {
  const std::string folder = cat(root, "/sys/class/net/", a.interface);
  const uint64_t mbps = number(folder + "/speed"), mtu = number(folder + "/mtu");
  return cat(a.interface, " (", hostPart(a.address), mbps > 0 ? cat("; ", mbps, " Mbit/s") : "",
             mtu > 0 ? cat(", MTU ", mtu) : "", ")");
}

/// Those of `all` that Tutti takes.
std::vector<InterfaceAddress> taken(const std::vector<InterfaceAddress>& all,
                                    const std::vector<SocketAddress>& addresses) {
  std::vector<InterfaceAddress> found;
  for (const SocketAddress& address : addresses) {
    const auto same = [&](const InterfaceAddress& a) { return hostPart(a.address) == hostPart(address); };
    const auto at = std::ranges::find_if(all, same);
    if (at != all.end()) found.push_back(*at);
  }
  return found;
}

Finding choice(const std::string& root, const std::vector<InterfaceAddress>& used) {
  std::string text;
  std::map<std::string, int> names;
  for (const InterfaceAddress& a : used) {
    text += cat(text.empty() ? "" : ", ", describe(root, a));
    ++names[a.interface];
  }
  const bool loopback = std::ranges::all_of(used, [](const auto& a) { return a.loopback; });
  if (loopback) {
    return {Verdict::Note, "interfaces", cat("only ", text, ": jobs on this host alone"),
            "for several hosts bring an interface up (ip link set NAME up), or name it in TUTTI_SOCKET_IFNAME"};
  }
  if (names.size() > 1 && configText("TUTTI_SOCKET_IFNAME").empty()) {
    return {Verdict::Note, "interfaces", cat(text, ": connections go through the first that answers"),
            cat("name those to use, as TUTTI_SOCKET_IFNAME==", names.begin()->first,
                "; several names share what connections carry")};
  }
  return {Verdict::Fine, "interfaces", text, ""};
}

void addCarriers(const std::vector<InterfaceAddress>& all, Findings* findings) {
  for (const InterfaceAddress& a : all) {
    if (a.loopback || a.running || a.interface.starts_with("docker") || a.interface.starts_with("virbr")) continue;
    findings->push_back({Verdict::Note, "interfaces", cat(a.interface, " is up and has no carrier"),
                         cat("look at its cable and switch port: ethtool ", a.interface)});
  }
}

/// Launchers give other hosts this name.
Finding hostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0')
    return {Verdict::Note, "host name", "there is none", ""};
  const int64_t start = nowNs();
  const Result<std::vector<SocketAddress>> found = resolveHost(name, 0);
  const int64_t took = nowNs() - start;
  const std::string mend = cat("put its address and name in /etc/hosts of all hosts: \"10.0.0.7 ", name, "\"");
  if (!found.ok())
    return {Verdict::Note, "host name", cat(found.status().message(), ": launchers may hand it to ranks"), mend};
  if (took > kSlowLookupNs) {
    return {Verdict::Slow, "host name", cat("looking up ", name, " takes ", took / 1'000'000, " ms"),
            cat("mend the name server (/etc/resolv.conf), or ", mend)};
  }
  if (std::ranges::all_of(*found, isLoopback)) {
    return {
        Verdict::Note, "host name",
        cat(name, " is ", hostPart(found->front()), ": other hosts that look it up by the same file reach themselves"),
        mend};
  }
  return {Verdict::Fine, "host name", cat(name, " is ", hostPart(found->front())), ""};
}

/// "4096 131072 6291456" -> the last.
std::optional<uint64_t> lastNumber(const std::string& text) {
  const size_t begin = text.find_last_of(" \t");
  uint64_t value = 0;
  if (!parseNumber(text.substr(begin == std::string::npos ? 0 : begin + 1), &value)) return {};
  return value;
}

void addTcp(const std::string& root, uint64_t fastest, Findings* findings) {
  const std::string ipv4 = root + "/proc/sys/net/ipv4/";
  for (const char* const name : {"tcp_rmem", "tcp_wmem"}) {
    const std::optional<uint64_t> most = lastNumber(line(ipv4 + name));
    if (!most || *most >= kWindowBytes || fastest < kFastMbps) continue;
    findings->push_back({Verdict::Slow, "TCP buffers",
                         cat("net.ipv4.", name, " ends at ", *most, " bytes: too little for ", fastest, " Mbit/s"),
                         cat("as root: sysctl -w net.ipv4.", name, "=\"4096 131072 16777216\"")});
  }
  const uint64_t backlog = number(root + "/proc/sys/net/core/somaxconn");
  if (backlog > 0 && backlog < 512) {
    findings->push_back({Verdict::Slow, "TCP backlog",
                         cat("net.core.somaxconn is ", backlog, ": many ranks that come up at once are kept waiting"),
                         "as root: sysctl -w net.core.somaxconn=4096"});
  }
  const std::string ports = line(ipv4 + "ip_local_port_range");
  const size_t blank = ports.find_first_of(" \t");
  uint64_t first = 0;
  const std::optional<uint64_t> last = lastNumber(ports);
  if (last && parseNumber(ports.substr(0, blank), &first) && *last < first + 4096) {
    findings->push_back({Verdict::Slow, "TCP ports", cat("only ", *last - first + 1, " are given out (", ports, ")"),
                         "as root: sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\""});
  }
}

}  // namespace

Findings checkNetwork(const std::string& root) {
  const Result<std::vector<InterfaceAddress>> all = listInterfaces();
  if (!all.ok()) return {{Verdict::Broken, "interfaces", all.status().message(), ""}};
  const Result<std::vector<SocketAddress>> addresses = listenAddresses();
  if (!addresses.ok()) {
    return {{Verdict::Broken, "interfaces", addresses.status().message(),
             "correct TUTTI_SOCKET_IFNAME or TUTTI_SOCKET_FAMILY, or unset them; `ip addr` lists what there is"}};
  }
  const std::vector<InterfaceAddress> used = taken(*all, *addresses);
  Findings findings{choice(root, used)};
  addCarriers(*all, &findings);
  findings.push_back(hostName());
  uint64_t fastest = 0;
  for (const InterfaceAddress& a : used)
    fastest = std::max(fastest, number(cat(root, "/sys/class/net/", a.interface, "/speed")));
  addTcp(root, fastest, &findings);
  return findings;
}

}  // namespace tutti::doctor
