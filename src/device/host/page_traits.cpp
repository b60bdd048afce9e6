#include "src/device/host/page_traits.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "src/device/host/memory_map.hpp"

namespace tutti {
namespace {

/// proc(5), VmFlags.  What is not listed means that pages are more than memory, or are watched by somebody.
struct Flag {
  std::string_view letters;
  int advice;  // of madvise(), -1: none is needed
};
constexpr Flag kFlags[] = {
    {"rd", -1},
    {"wr", -1},
    {"mr", -1},
    {"mw", -1},
    {"me", -1},
    {"ac", -1},
    {"nr", -1},
    {"sd", -1},
    {"hg", MADV_HUGEPAGE},
    {"nh", MADV_NOHUGEPAGE},
    {"dd", MADV_DONTDUMP},
    {"mg", MADV_MERGEABLE},
    {"rr", MADV_RANDOM},
    {"sr", MADV_SEQUENTIAL},
};
struct Refusal {
  std::string_view letters, why;
};
constexpr Refusal kRefusals[] = {
    {"sh", "is shared with other processes already"},
    {"gd", "is on the stack of the program"},
    {"lo", "is locked (mlock)"},
    {"ht", "is of huge pages of its own (MAP_HUGETLB)"},
    {"dc", "is kept from children (MADV_DONTFORK)"},
    {"wf", "is wiped in children (MADV_WIPEONFORK)"},
    {"um", "is watched (userfaultfd)"},
    {"uw", "is watched (userfaultfd)"},
    {"io", "is of a device"},
    {"pf", "is of a device"},
    {"mt", "has memory tags"},
    {"ss", "is a shadow stack"},
    {"gu", "has guard pages (MADV_GUARD_INSTALL)"},
    {"sl", "is sealed (mseal)"},
};
// What was given back to the program privately, after a fork for example.
constexpr std::string_view kOwnFile = "/memfd:tutti (deleted)";

/// The flags that are none of ours, one after the other.
template <class Visit>
void eachFlag(std::string_view flags, Visit visit) {
  for (; flags.size() >= 2; flags.remove_prefix(std::min<size_t>(3, flags.size()))) visit(flags.substr(0, 2));
}

Status refuseFlags(const MappedRange& range) {
  if (range.flags.empty())
    return invalidUsage(ErrorCode::NotAdopted, "the system does not say what kind of memory it is (VmFlags)");
  Status refused;
  eachFlag(range.flags, [&](std::string_view letters) {
    if (!refused.ok() || std::ranges::any_of(kFlags, [&](const Flag& f) { return f.letters == letters; })) return;
    const auto* known = std::ranges::find(kRefusals, letters, &Refusal::letters);
    refused = known != std::end(kRefusals)
                  ? invalidUsage(ErrorCode::NotAdopted, "it ", known->why)
                  : invalidUsage(ErrorCode::NotAdopted, "it has the flag '", letters, "' (VmFlags)");
  });
  return refused;
}

Status refuse(const MappedRange& range) {
  if (range.permissions[0] != 'r' || range.permissions[1] != 'w')
    return invalidUsage(ErrorCode::NotAdopted, "it is not writable (", range.permissions, ")");
  if (range.permissions[3] != 'p')
    return invalidUsage(ErrorCode::NotAdopted, "it is shared with other processes already");
  if (range.permissions[2] == 'x') return invalidUsage(ErrorCode::NotAdopted, "it is executable");
  if (range.inode != 0 && range.name != kOwnFile)
    return invalidUsage(ErrorCode::NotAdopted, "it is of a file, ", range.name);
  if (range.name.starts_with("[stack")) return invalidUsage(ErrorCode::NotAdopted, "it is on the stack of the program");
  if (range.keyed) return invalidUsage(ErrorCode::NotAdopted, "it is under a protection key (pkeys)");
  return refuseFlags(range);
}

}  // namespace

PageTraits::NodePolicy PageTraits::policyAt(const std::byte* at) {
  NodePolicy policy;
  if (syscall(SYS_get_mempolicy, &policy.mode, policy.nodes, 8 * sizeof policy.nodes, at, MPOL_F_ADDR) == 0)
    return policy;
  return {};  // a kernel without nodes, or a sandbox, which would not let anybody set one
}

Result<PageTraits> PageTraits::of(const Pages& pages) {
  const auto begin = reinterpret_cast<uintptr_t>(pages.begin), end = reinterpret_cast<uintptr_t>(pages.end);
  TUTTI_ASSIGN(const std::vector<MappedRange> ranges, mappedRanges(begin, end, true));
  PageTraits traits;
  uintptr_t covered = begin;
  for (const MappedRange& range : ranges) {
    if (range.begin > covered) break;
    TUTTI_TRY(refuse(range));
    const NodePolicy policy = policyAt(reinterpret_cast<const std::byte*>(std::max(begin, range.begin)));
    const bool first = covered == begin;
    if (!first && (range.flags != traits.flags_ || policy != traits.policy_))
      return invalidUsage(ErrorCode::NotAdopted, "its parts differ in what was asked by madvise() or mbind()");
    traits.flags_ = range.flags;
    traits.policy_ = policy;
    covered = range.end;
  }
  if (covered < end)
    return invalidUsage(ErrorCode::NotAdopted, "nothing is mapped at ", reinterpret_cast<const void*>(covered));
  return traits;
}

void PageTraits::apply(const Mapping& mapping) const {
  madvise(mapping.data(), mapping.bytes(), MADV_DODUMP);
  eachFlag(flags_, [&](std::string_view letters) {
    const auto* flag = std::ranges::find(kFlags, letters, &Flag::letters);
    if (flag != std::end(kFlags) && flag->advice >= 0) madvise(mapping.data(), mapping.bytes(), flag->advice);
  });
  if (policy_.mode == MPOL_DEFAULT) return;
  syscall(SYS_mbind, mapping.data(), mapping.bytes(), policy_.mode, policy_.nodes, 8 * sizeof policy_.nodes, 0);
}

}  // namespace tutti
