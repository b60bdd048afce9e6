// The CUDA device that log lines name.
#pragma once

namespace tutti::nccl {

/// The device that is current on the calling thread; -1 where there is none, or nothing in the process uses CUDA.  Asks
/// the driver, without loading it: for lines that are written anyway.
int currentDevice();
/// A device's address on PCI as NCCL's log writes it: its hexadecimal digits as one number; 0 if it is not known.
unsigned long long busIdOf(int device);

}  // namespace tutti::nccl
