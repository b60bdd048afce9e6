// CUDA devices for layers: the driver's interface alone, found at run time, and the kernels of kernels/.
#pragma once

#include <memory>

#include "src/parallel/device.hpp"

namespace tutti::parallel {

/// The device of the calling thread's current context; 0 without one.  Throws where there is no driver.
int currentCudaDevice();
/// A stream of its own for what goes beside the caller's, and memory that is used again.  One for each handle; the
/// context and the kernels are the process's.  Throws tuttiInvalidUsage where there is no driver, or this build has no
/// kernels for the device.
std::shared_ptr<Device> openCudaDevice(int ordinal);

}  // namespace tutti::parallel
