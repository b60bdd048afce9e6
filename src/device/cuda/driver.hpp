// The CUDA driver, found at run time: libcuda.so.1 by dlopen, its functions by cuGetProcAddress.
//
// Nothing is linked against, so the library loads and works where there is no NVIDIA software.  The driver stays loaded
// until the process ends.  Any thread.
#pragma once

#include "src/base/status.hpp"
#include "src/device/cuda/abi.hpp"

namespace tutti::cuda {

/// The functions of the driver, as pointers of their names: driver.cuMemAlloc(...).
struct Driver {
#define TUTTI_CUDA_MEMBER(name, version, parameters) Error(*name) parameters = nullptr;
  TUTTI_CUDA_FUNCTIONS(TUTTI_CUDA_MEMBER)
#undef TUTTI_CUDA_MEMBER
};

/// The driver, initialized; loaded at the first call.  Errors: InvalidUsage with the reason why there is none (no
/// library, one that is too old, no device); the same for the life of the process.  Also in a child that was forked
/// after the first call.
Result<const Driver*> driver();

/// Success, or UnhandledCudaError "WHAT: CUDA_ERROR_NAME (what the driver says of it)".
Status check(const Driver& driver, Error error, const char* what);

/// Returns from the enclosing function if the driver refuses a call: TUTTI_CUDA(driver, cuMemFree(address)).
#define TUTTI_CUDA(driver, call) TUTTI_TRY(::tutti::cuda::check((driver), (driver).call, #call))

}  // namespace tutti::cuda
