// A set of processing units (PUs: hardware threads), by the operating system's numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace tutti::topology {

class CpuSet {
 public:
  /// The largest number of PUs that is believed; more in a file is an error, not an allocation.
  static constexpr int kMost = 1 << 16;

  bool empty() const { return words_.empty(); }
  int count() const;
  bool has(int pu) const;
  /// pu is in [0, kMost).
  void add(int pu);
  void add(const CpuSet& other);
  bool contains(const CpuSet& other) const;
  bool operator==(const CpuSet&) const = default;

  /// The kernel's forms: "00000000,0000ffff" (NCCL's `affinity`) and "0-3,8".
  std::string mask() const;
  std::string list() const;
  /// Errors: InvalidArgument with what is wrong.  An empty text is the empty set.
  static Result<CpuSet> parseMask(std::string_view text);
  static Result<CpuSet> parseList(std::string_view text);

 private:
  void trim();
  std::vector<uint64_t> words_;  // no zero word at the end, so equal sets compare equal
};

}  // namespace tutti::topology
