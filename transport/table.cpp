#include "transport/table.hpp"

#include <algorithm>
#include <array>

#include "src/base/text.hpp"
#include "transport/ncclnet/entry.hpp"
#include "transport/self/entry.hpp"
#include "transport/shm/entry.hpp"
#include "transport/tcp/entry.hpp"
#if TUTTI_HAVE_UCX
#include "transport/ucx/entry.hpp"
#endif
#if TUTTI_HAVE_VERBS
#include "transport/verbs/entry.hpp"
#endif

namespace tutti {
namespace {

constexpr const TransportEntry* kTransports[] = {
    &kSelfEntry,
    &kShmEntry,
    // Before verbs, as somebody has asked for it.
    &kNcclnetEntry,
#if TUTTI_HAVE_VERBS
    &kVerbsEntry,
#endif
#if TUTTI_HAVE_UCX
    // Behind verbs, which takes the same adapters with less in between; before tcp, as somebody has asked for it.
    &kUcxEntry,
#endif
    &kTcpEntry,
};

constexpr std::array<std::string_view, 3> kElsewhere = {"cuda_ipc", "verbs", "ucx"};

}  // namespace

TransportTable transports() { return kTransports; }

LinkKinds linkKinds(TransportTable table) {
  LinkKinds kinds;
  for (const TransportEntry* entry : table) kinds.insert(kinds.end(), entry->links.begin(), entry->links.end());
  return kinds;
}

std::optional<LinkProfile> findLink(std::string_view key, TransportTable table) {
  for (const LinkDescription& kind : linkKinds(table)) {
    if (kind.profile.key == key) return kind.profile;
  }
  return std::nullopt;
}

const TransportEntry* findTransport(std::string_view name, TransportTable table) {
  const auto found = std::ranges::find(table, name, [](const TransportEntry* entry) { return entry->name; });
  return found == table.end() ? nullptr : *found;
}

bool isTransportElsewhere(std::string_view name) { return std::ranges::find(kElsewhere, name) != kElsewhere.end(); }

std::string namesOf(TransportTable table, bool networks) {
  std::string names;
  for (const TransportEntry* entry : table) {
    if (!networks || entry->isNetwork()) names += cat(names.empty() ? "" : ", ", entry->name);
  }
  return names;
}

bool TransportEntry::isNetwork() const {
  return std::ranges::any_of(links, [](const LinkDescription& link) { return link.profile.betweenHosts; });
}

bool TransportEntry::canEncrypt() const {
  return std::ranges::none_of(
      links, [](const LinkDescription& link) { return link.profile.betweenHosts && !link.profile.encrypts; });
}

bool TransportEntry::sharesMemory() const {
  return std::ranges::any_of(links, [](const LinkDescription& link) { return link.profile.mapped; });
}

}  // namespace tutti
