// The kernels on one CUDA device: loaded once, found by type and operator, enqueued on streams.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "src/device/cuda/device.hpp"
#include "src/exec/kernels/pass_program.hpp"
#include "src/exec/kernels/walk_program.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {

/// Any thread; launches need the device's context to be current (CudaScope).  Nothing here waits for the device.
class CudaKernels {
 public:
  /// Loads every kernel now: a driver that loads one at its first launch may wait for the device, and so for ever where
  /// something enqueued waits for that launch.  Errors: InvalidUsage where the build has no kernels for the device;
  /// UnhandledCudaError.
  static Result<std::shared_ptr<const CudaKernels>> load(std::shared_ptr<const cuda::CudaDevice> device);
  ~CudaKernels();

  /// dst[i] = sources[0][i] op sources[1][i] op ..., for any number of sources from 2 on; as reduceMany().
  Status reduce(cuda::Stream stream, const Reduction& r, void* dst, std::span<const void* const> sources,
                size_t count) const;
  /// dst[i] = src[i] * scalar.  `scalar` is one element, in device memory if onDevice.
  Status scale(cuda::Stream stream, tuttiDataType_t dtype, void* dst, const void* src, const void* scalar,
               bool onDevice, size_t count) const;
  /// The resident executor on all members of `arguments`, in so many blocks.  They start together, when the device has
  /// room for all of them, which it may never have beside kernels of others that do not end.  r: what they combine
  /// with, if `collective` reduces.  Sets arguments->what.
  Status walk(cuda::Stream stream, const Reduction& r, Collective collective, kernels::WalkArguments* arguments,
              uint32_t blocks) const;
  /// The most blocks that walk() may be given.
  uint32_t mostWalkBlocks() const { return mostWalkBlocks_; }
  /// A kernel for pass().  A value.
  struct Pass {
    cuda::Function function = nullptr;
    bool copies = true;      // does not combine
    bool exchanges = false;  // some call has ranks exchange blocks
    /// Becomes one for what `other` serves, too.  False if there is none.
    bool join(const Pass& other);
  };
  /// The one for pass() of such a call.
  Pass passFor(const Reduction& r, Collective collective) const;
  /// One pass over all buffers of `arguments`, in at most so many blocks, which wait for nothing.  Sets the tiles.
  Status pass(cuda::Stream stream, const Pass& kernel, kernels::PassArguments* arguments, uint32_t mostBlocks) const;
  /// Blocks that fill the device with pass().
  uint32_t passBlocks() const;
  Status divide(cuda::Stream stream, tuttiDataType_t dtype, void* data, int divisor, size_t count) const;

 private:
  explicit CudaKernels(std::shared_ptr<const cuda::CudaDevice> device) : device_(std::move(device)) {}
  Status loadModules();
  Result<cuda::Function> find(const std::string& name) const;
  Status launch(cuda::Stream stream, cuda::Function function, void* arguments, size_t bytes) const;

  std::shared_ptr<const cuda::CudaDevice> device_;
  std::vector<cuda::Module> modules_;
  cuda::Function copy_ = nullptr;
  std::array<std::array<cuda::Function, tuttiNumOps>, tuttiNumTypes> reduce_{};
  std::array<cuda::Function, tuttiNumTypes> scale_{};
  std::array<cuda::Function, tuttiNumTypes> divide_{};
  Status loadWalks();
  cuda::Function walkCopy_ = nullptr, walkAny_ = nullptr;
  std::array<cuda::Function, tuttiNumTypes> walkSum_{};  // null: by walkAny_
  uint32_t mostWalkBlocks_ = 0;
};

}  // namespace tutti
