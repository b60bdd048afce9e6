#include "src/device/cuda/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

namespace tutti::cuda {
namespace {

using GetProcAddress = Error (*)(const char* name, void** function, int version, uint64_t flags, void* found);

template <class Member>
Error get(GetProcAddress find, const char* name, int version, Member* member) {
  void* function = nullptr;
  const Error error = find(name, &function, version, 0, nullptr);
  // A driver that does not know the function may say so by a null pointer alone.
  std::memcpy(member, &function, sizeof function);
  return error == kSuccess && function == nullptr ? kErrorNotFound : error;
}

Result<Driver> load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return invalidUsage(ErrorCode::NoCudaDriver, "there is no CUDA driver: ", dlerror());
  void* symbol = dlsym(library, "cuGetProcAddress_v2");
  if (symbol == nullptr)
    return invalidUsage(ErrorCode::NoCudaDriver, "the CUDA driver is older than 12.0: it has no cuGetProcAddress_v2");
  GetProcAddress find;
  std::memcpy(&find, &symbol, sizeof find);
  Driver d;
#define TUTTI_CUDA_GET(name, version, parameters)                                                                     \
  if (const Error error = get(find, #name, version, &d.name); error != kSuccess) {                                    \
    return invalidUsage(ErrorCode::NoCudaDriver, "the CUDA driver has no " #name " of version ", version, " (error ", \
                        error, ")");                                                                                  \
  }
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_GET)
#undef TUTTI_CUDA_GET
  if (const Error error = d.cuInit(0); error != kSuccess) {
    return invalidUsage(ErrorCode::NoCudaDriver,
                        "the CUDA driver does not start: ", check(d, error, "cuInit").message());
  }
  return d;
}

}  // namespace

Result<const Driver*> driver() {
  static const Result<Driver> loaded = load();
  static const pid_t process = getpid();
  if (!loaded.ok()) return loaded.status();
  if (process != getpid()) {
    return invalidUsage(ErrorCode::Forked,
                        "the CUDA driver was started before this process was forked, and does not work in it; ",
                        "fork first, or start processes anew (spawn)");
  }
  return &*loaded;
}

/// What to look at where the driver does not start, or loses its connection; "" where its own words say enough.
static const char* adviceOn(Error error) {
  switch (error) {
    case kErrorDeviceUnavailable: return "; is its compute mode exclusive, and another process on it?";
    case kErrorSystemNotReady: return "; is nvidia-fabricmanager running?";
    case kErrorDriverMismatch: return "; restart after an update, or load the kernel's module of the same version";
    case kErrorMpsConnection:
    case kErrorMpsRpc:
    case kErrorMpsServerNotReady: return "; is nvidia-cuda-mps-control running, for this user?";
    case kErrorMpsClients:
    case kErrorMpsConnections: return "; CUDA's multi-process service takes no more processes";
    default: return "";
  }
}

static ErrorCode kindOf(Error error) {
  if (error >= kErrorFirstOfKernels && error <= kErrorLastOfKernels) return ErrorCode::CudaKernelFaulted;
  switch (error) {
    case kErrorIllegalAddress:
    case kErrorAssert: return ErrorCode::CudaKernelFaulted;
    case kErrorUncorrectableMemory:
    case kErrorUncorrectableLink: return ErrorCode::CudaDeviceBroken;
    case kErrorDeviceUnavailable:
    case kErrorSystemNotReady:
    case kErrorDriverMismatch:
    case kErrorMpsConnection:
    case kErrorMpsRpc:
    case kErrorMpsServerNotReady:
    case kErrorMpsClients:
    case kErrorMpsConnections: return ErrorCode::CudaNotReady;
    default: return ErrorCode::CudaCallFailed;
  }
}

Status check(const Driver& driver, Error error, const char* what) {
  if (error == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(error, &name);
  driver.cuGetErrorString(error, &text);
  return {tuttiUnhandledCudaError, kindOf(error),
          cat(what, " gave ", name != nullptr ? name : "an unknown error", " ", error, " (",
              text != nullptr ? text : "?", ")", adviceOn(error))};
}

}  // namespace tutti::cuda
