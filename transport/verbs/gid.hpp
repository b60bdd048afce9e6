// Which of a RoCE port's addresses (GIDs) packets carry.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::verbs {

struct Gid {
  int index = 0;
  ibv_gid raw{};
  bool routable = false;  // RoCE v2, which goes in UDP packets

  bool isIpv4() const;  // ::ffff:a.b.c.d
  bool isLinkLocal() const;
  bool isZero() const;
  std::string text() const;
};

/// RoCE v2 with an IPv4 address, then IPv6 that is not link-local, then any; then v1 in that order.  The first of the
/// best; nothing where all are zero.
std::optional<Gid> chooseGid(std::span<const Gid> gids);

/// Whether the system says that entry `index` of the table of GIDs is of RoCE v2 (/sys/class/infiniband).
bool isRoutable(const std::string& device, int port, int index);

}  // namespace tutti::verbs
