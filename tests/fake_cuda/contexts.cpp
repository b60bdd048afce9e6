// Contexts: the primary one of each device, those current on threads, and which of them use whose memory.
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

CUctx_st contexts[kMostDevices];

/// What a thread leaves behind is found by whatever runs on it next.
struct Stack {
  std::vector<Context> contexts;
  ~Stack() {
    if (!contexts.empty()) complain("a thread ends with a context that it has pushed");
  }
};
Stack& stack() {
  static thread_local Stack s;
  return s;
}

/// So that no context comes while what is in the one before it goes.
std::mutex& comingAndGoing() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

}  // namespace

Context currentContext() { return stack().contexts.empty() ? nullptr : stack().contexts.back(); }
Context primaryContextOf(int device) { return &contexts[device]; }
int deviceOf(Context context) { return static_cast<int>(context - contexts); }
bool isAlive(Context context) {
  const std::lock_guard lock(machine().mutex);
  return context->retained > 0;
}

Error cuDevicePrimaryCtxRetain(Context* context, Device device) {
  TUTTI_FAKE_ENTER(cuDevicePrimaryCtxRetain);
  if (!isDevice(device)) return kErrorInvalidDevice;
  const std::lock_guard changing(comingAndGoing());
  const std::lock_guard lock(machine().mutex);
  ++contexts[device].retained;
  *context = &contexts[device];
  return kSuccess;
}
// What is in a context goes with it, and what was enabled.
Error cuDevicePrimaryCtxRelease(Device device) {
  TUTTI_FAKE_ENTER(cuDevicePrimaryCtxRelease);
  const std::lock_guard changing(comingAndGoing());
  {
    const std::lock_guard lock(machine().mutex);
    if (contexts[device].retained == 0) return kErrorInvalidContext;
    if (--contexts[device].retained > 0) return kSuccess;
    std::erase_if(machine().peerAccess,
                  [&](const auto& pair) { return pair.first == device || pair.second == device; });
  }
  waitForDevice(device);
  loseMemoryOf(device);
  loseStreamsOf(device);
  return kSuccess;
}
Error cuCtxGetCurrent(Context* context) {
  TUTTI_FAKE_ENTER(cuCtxGetCurrent);
  *context = currentContext();
  return kSuccess;
}
Error cuCtxPushCurrent(Context context) {
  TUTTI_FAKE_ENTER(cuCtxPushCurrent);
  if (context == nullptr) return kErrorInvalidContext;
  if (!isAlive(context)) return kErrorContextDestroyed;
  stack().contexts.push_back(context);
  return kSuccess;
}
Error cuCtxPopCurrent(Context* context) {
  TUTTI_FAKE_ENTER(cuCtxPopCurrent);
  if (stack().contexts.empty()) return kErrorInvalidContext;
  *context = stack().contexts.back();
  stack().contexts.pop_back();
  return kSuccess;
}
Error cuCtxGetDevice(Device* device) {
  TUTTI_FAKE_ENTER(cuCtxGetDevice);
  *device = deviceOf(currentContext());
  return kSuccess;
}
Error cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  TUTTI_FAKE_ENTER(cuCtxEnablePeerAccess);
  if (flags != 0) return kErrorInvalidValue;
  if (peer == nullptr || peer == currentContext() || !isAlive(peer)) return kErrorInvalidContext;
  if (!reaches(deviceOf(currentContext()), deviceOf(peer))) return kErrorPeerAccessUnsupported;
  const std::lock_guard lock(machine().mutex);
  const bool added = machine().peerAccess.emplace(deviceOf(currentContext()), deviceOf(peer)).second;
  return added ? kSuccess : kErrorPeerAccessAlreadyEnabled;
}
Error cuCtxSynchronize() {
  TUTTI_FAKE_ENTER(cuCtxSynchronize);
  const int device = deviceOf(currentContext());
  if (breakCapturesOn(device)) return kErrorCaptureUnsupported;
  waitForDevice(device);
  return kSuccess;
}

}  // namespace tutti::fake
