#include "transport/verbs/gid.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>

#include "src/base/text.hpp"

namespace tutti::verbs {

bool Gid::isIpv4() const {
  const auto* bytes = raw.raw;
  return std::all_of(bytes, bytes + 10, [](uint8_t byte) { return byte == 0; }) && bytes[10] == 0xff &&
         bytes[11] == 0xff;
}

bool Gid::isLinkLocal() const {
  if (isIpv4()) return raw.raw[12] == 169 && raw.raw[13] == 254;
  return raw.raw[0] == 0xfe && (raw.raw[1] & 0xc0) == 0x80;
}

bool Gid::isZero() const {
  return std::all_of(raw.raw, raw.raw + sizeof raw.raw, [](uint8_t byte) { return byte == 0; });
}

std::string Gid::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, raw.raw, text, sizeof text);
  return cat(text, routable ? " (RoCE v2)" : "");
}

Result<GidFilter> GidFilter::parse(std::string_view family, std::string_view range, int version) {
  GidFilter filter;
  TUTTI_TRY(checkAddressFamily("TUTTI_IB_ADDR_FAMILY", family));
  TUTTI_ASSIGN(filter.range_, parseAddressRange("TUTTI_IB_ADDR_RANGE", range));
  filter.family_ = family;
  filter.rangeText_ = range;
  filter.version_ = version;
  return filter;
}

bool GidFilter::allows(const Gid& gid) const {
  if (!family_.empty() && gid.isIpv4() != (family_ == "AF_INET")) return false;
  if (version_ != 0 && gid.routable != (version_ == 2)) return false;
  return range_.holds(gid.raw.raw);
}

std::string GidFilter::text() const {
  std::string all;
  const auto add = [&all](const char* name, const auto& value) {
    all += cat(all.empty() ? "" : ", ", name, "=", value);
  };
  if (!family_.empty()) add("TUTTI_IB_ADDR_FAMILY", family_);
  if (!rangeText_.empty()) add("TUTTI_IB_ADDR_RANGE", rangeText_);
  if (version_ != 0) add("TUTTI_IB_ROCE_VERSION_NUM", version_);
  return all;
}

std::optional<Gid> chooseGid(std::span<const Gid> gids, const GidFilter& filter) {
  const auto rank = [](const Gid& gid) {
    const int address = gid.isLinkLocal() ? 2 : gid.isIpv4() ? 0 : 1;
    return (gid.routable ? 0 : 3) + address;
  };
  const Gid* best = nullptr;
  for (const Gid& gid : gids) {
    if (!gid.isZero() && filter.allows(gid) && (best == nullptr || rank(gid) < rank(*best))) best = &gid;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

bool isRoutable(const std::string& device, int port, int index) {
  std::ifstream file(cat("/sys/class/infiniband/", device, "/ports/", port, "/gid_attrs/types/", index));
  std::string type;
  return std::getline(file, type) && type.starts_with("RoCE v2");
}

}  // namespace tutti::verbs
