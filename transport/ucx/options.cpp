#include "transport/ucx/options.hpp"

#include "src/base/config.hpp"

namespace tutti::ucx {

Result<Options> Options::fromConfig() {
  Options options;
  TUTTI_ASSIGN(const int64_t slots, configInteger("TUTTI_SLOTS"));
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  options.slots = static_cast<size_t>(slots);
  options.slotBytes = static_cast<size_t>(slotBytes);
  return options;
}

}  // namespace tutti::ucx
