// Memory, registration, windows.
#include <memory>
#include <mutex>
#include <set>

#include "src/nccl/calls.hpp"
#include "src/nccl/config.hpp"
#include "src/nccl/environment.hpp"
#include "src/nccl/errors.hpp"
#include "src/nccl/log.hpp"

using namespace tutti::nccl;

// What an ncclWindow_t points to: a registration that remembers its memory.
struct ncclWindow_vidmem {
  ncclComm_t comm;
  void* base;
  size_t bytes;
  void* registration;
};

namespace {

constexpr int kKnownWindowFlags = 0x0f;  // of all versions up to 2.32

/// The windows that there are, so that a stale one has an answer.
struct Windows {
  std::mutex mutex;
  std::set<ncclWindow_t> all;
};

Windows& windows() {
  static auto* const all = new Windows;  // threads may outlive static destructors
  return *all;
}

bool isWindow(ncclWindow_t window) {
  const std::lock_guard lock(windows().mutex);
  return windows().all.count(window) != 0;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, MemAlloc, (void** ptr, size_t size)) {
  if (ptr == nullptr) return fail(ncclInvalidArgument, "MemAlloc", "ptr is NULL");
  *ptr = nullptr;
  (void)environment();
  if (!onHost()) (void)tuttiSetDefault("TUTTI_DEVICE", "cuda");  // this process is a program for CUDA devices
  return finish("MemAlloc", tuttiMemAlloc(ptr, size));
}

NCCL_EXPORT(ncclResult_t, MemFree, (void* ptr)) { return finish("MemFree", tuttiMemFree(ptr)); }

NCCL_EXPORT(ncclResult_t, CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle_)) {
  return finish("CommRegister", tuttiCommRegister(handle(comm), buff, size, handle_));
}

// NCCL's answer to an unknown handle is ncclInvalidUsage, and NULL is what a registration that was skipped has left.
NCCL_EXPORT(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle_)) {
  if (const ncclResult_t bad = checkComm("CommDeregister", comm); bad != ncclSuccess) return bad;
  if (handle_ == nullptr) return ncclSuccess;
  const ncclResult_t result = finish("CommDeregister", tuttiCommDeregister(handle(comm), handle_));
  return result == ncclInvalidArgument ? ncclInvalidUsage : result;
}

// NCCL's is collective; nothing here needs the other ranks, and what they pass is their affair.
NCCL_EXPORT(ncclResult_t, CommWindowRegister,
            (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  if (win == nullptr) return fail(ncclInvalidArgument, "CommWindowRegister", "win is NULL");
  *win = nullptr;
  if ((winFlags & ~kKnownWindowFlags) != 0) {
    return fail(ncclInvalidArgument, "CommWindowRegister", "winFlags has a flag that NCCL does not have");
  }
  if (buff == nullptr || size == 0) {
    return fail(ncclInvalidArgument, "CommWindowRegister", format("there are %zu bytes at %p", size, buff));
  }
  auto window = std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{comm, buff, size, nullptr});
  const tuttiResult_t result = tuttiCommRegister(handle(comm), buff, size, &window->registration);
  if (result != tuttiSuccess) return finish("CommWindowRegister", result);
  const std::lock_guard lock(windows().mutex);
  windows().all.insert(*win = window.release());
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  if (win == nullptr) return ncclSuccess;
  {
    const std::lock_guard lock(windows().mutex);
    const auto found = windows().all.find(win);
    if (found == windows().all.end() || win->comm != comm) {
      return fail(ncclInvalidArgument, "CommWindowDeregister", "win is not a window of comm");
    }
    windows().all.erase(found);
  }
  const std::unique_ptr<ncclWindow_vidmem> window(win);
  return finish("CommWindowDeregister", tuttiCommDeregister(handle(comm), window->registration));
}

// 2.29
NCCL_EXPORT(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  if (outUserPtr == nullptr) return fail(ncclInvalidArgument, "WinGetUserPtr", "outUserPtr is NULL");
  if (win == nullptr || !isWindow(win) || win->comm != comm) {
    return fail(ncclInvalidArgument, "WinGetUserPtr", "win is not a window of comm");
  }
  *outUserPtr = win->base;
  return ncclSuccess;
}
