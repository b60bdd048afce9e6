// What the environment says of messages over UCX; how UCX itself behaves is said by its own variables, UCX_*.
#pragma once

#include <ucs/memory/memory_type.h>

#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace tutti::ucx {

struct Options {
  size_t slots = 4;
  size_t slotBytes = 128 << 10;
  int closeMs = 500;  // that all endpoints together may take to end in good order
  /// What UCX calls memory of the rank's device; a device of the tests has memory of the host.
  ucs_memory_type_t deviceMemory = UCS_MEMORY_TYPE_CUDA;
  /// UCX's variables, without UCX_ in front, that count before those of the environment.
  std::vector<std::pair<std::string, std::string>> settings = {};

  /// Errors: InvalidUsage naming the variable.
  static Result<Options> fromConfig();
};

}  // namespace tutti::ucx
