#include "src/base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

bool registerProcess() { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

}  // namespace

bool heavyFenceReachesAll = registerProcess() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

bool heavyFence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!heavyFenceReachesAll || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return true;
  // A process that was forked, by a kernel that forgets its parent's registration; else a filter of system calls.
  return registerProcess() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace tutti
