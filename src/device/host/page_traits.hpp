// What a program has asked of its memory by madvise() and mbind(), and whether that memory can be adopted at all.
#pragma once

#include <string>

#include "src/device/host/host_table.hpp"

namespace tutti {

/// The same for all pages that have it.  A value.
class PageTraits {
 public:
  /// Of private, anonymous, writable memory with nothing special about it.  Errors: InvalidUsage, a clause that says
  /// what stands against it; SystemError.
  static Result<PageTraits> of(const Pages& pages);

  /// Ask the same of a mapping that has no pages yet.  What it cannot have it goes without.
  void apply(const Mapping& mapping) const;

 private:
  static constexpr size_t kNodeWords = 16;  // 1024 nodes, the most that kernels are built for
  struct NodePolicy {
    int mode = 0;  // MPOL_DEFAULT
    unsigned long nodes[kNodeWords] = {};
    bool operator==(const NodePolicy&) const = default;
  };
  static NodePolicy policyAt(const std::byte* at);

  std::string flags_;  // as MappedRange has them
  NodePolicy policy_;
};

}  // namespace tutti
