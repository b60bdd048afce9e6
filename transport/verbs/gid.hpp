// Which of a RoCE port's addresses (GIDs) packets carry.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/address_range.hpp"

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

/// Which addresses may be chosen.  A value.
class GidFilter {
 public:
  GidFilter() = default;
  /// family: "", "AF_INET" or "AF_INET6"; range: "" or an address of either family with "/" and the number of its bits
  /// that count; version: of RoCE, 0: any.  Errors: InvalidUsage naming the variable.
  static Result<GidFilter> parse(std::string_view family, std::string_view range, int version);
  bool allows(const Gid& gid) const;
  /// What it asks for, by the variables' names; "" if for nothing.
  std::string text() const;

 private:
  std::string family_, rangeText_;
  AddressRange range_;
  int version_ = 0;
};

/// RoCE v2 with an IPv4 address, then IPv6 that is not link-local, then any; then v1 in that order.  The first of the
/// best; nothing where all are zero or none is allowed.
std::optional<Gid> chooseGid(std::span<const Gid> gids, const GidFilter& filter = {});

/// Whether the system says that entry `index` of the table of GIDs is of RoCE v2 (/sys/class/infiniband).
bool isRoutable(const std::string& device, int port, int index);

}  // namespace tutti::verbs
