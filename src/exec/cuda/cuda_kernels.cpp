#include "src/exec/cuda/cuda_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "src/base/assert.hpp"
#include "src/collective/geometry.hpp"
#include "src/exec/cuda/cuda_images.hpp"
#include "src/exec/cuda/one_pass.hpp"
#include "src/exec/kernels/scale_body.hpp"
#include "src/exec/kernels/walk_arithmetic.hpp"

namespace tutti {
namespace {

using kernels::kMostPassRanks;
using kernels::PassArguments;
using kernels::ScaleArguments;

static_assert(kMostPassRanks == kMaxSources);
constexpr unsigned kThreads = 512;
// Enough blocks to fill the memory system, few enough to leave room for the kernels of other ranks on the device.
constexpr unsigned kBlocksPerMultiprocessor = 2;
// Below this a further block costs more than it brings.
constexpr size_t kBytesPerBlock = 16384;

/// The format whose kernels combine elements of dtype: its sign matters to some operators only.
std::string formatName(tuttiDataType_t dtype, bool isSigned) {
  switch (dtype) {
    case tuttiFloat16: return "F16";
    case tuttiBfloat16: return "BF16";
    case tuttiFloat32: return "F32";
    case tuttiFloat64: return "F64";
    case tuttiFloat8e4m3: return "E4M3";
    case tuttiFloat8e5m2: return "E5M2";
    case tuttiInt8:
    case tuttiInt16:
    case tuttiInt32:
    case tuttiInt64: return cat(isSigned ? "I" : "U", dataTypeBytes(dtype) * 8);
    default: return cat("U", dataTypeBytes(dtype) * 8);
  }
}

std::string boolKernel(tuttiRedOp_t op) {
  const bool any = op == tuttiSum || op == tuttiMax || op == tuttiBor || op == tuttiLor;
  return cat("tutti_pass_Truth_", any ? "Lor" : op == tuttiBxor ? "Bxor" : "Land");
}

std::string reduceKernel(tuttiDataType_t dtype, tuttiRedOp_t op) {
  static constexpr const char* kNames[] = {"Sum", "Prod", "Max", "Min", "Sum", "Band", "Bor", "Bxor", "Land", "Lor"};
  static_assert(std::size(kNames) == tuttiNumOps);
  if (dtype == tuttiBool) return boolKernel(op);
  const bool ordered = op == tuttiMax || op == tuttiMin;
  return cat("tutti_pass_", formatName(dtype, ordered), "_", ordered && isFloating(dtype) ? "Float" : "", kNames[op]);
}

/// What kernels do: operators of users have scaled before.
tuttiRedOp_t operatorOf(const Reduction& r) { return r.op < tuttiNumOps ? r.op : tuttiSum; }

/// What the walk kernel for everything is told.  reduceKernel: the name of the kernel that does nothing else.
uint32_t walkCode(const std::string& reduceKernel) {
  static constexpr struct {
    const char* name;
    uint32_t code;
  } kCodes[] = {
#define TUTTI_WALK_CODE(F, Op) \
  {"tutti_pass_" #F "_" #Op, kernels::AnyArithmetic::code(kernels::kFormat##F, kernels::kPair##F##Op)},
      TUTTI_REDUCE_KERNELS(TUTTI_WALK_CODE)
#undef TUTTI_WALK_CODE
  };
  size_t i = 0;
  while (i < std::size(kCodes) && reduceKernel != kCodes[i].name) ++i;
  TUTTI_ASSERT_CMP(i, <, std::size(kCodes));
  return kCodes[i].code;
}

}  // namespace

Result<std::shared_ptr<const CudaKernels>> CudaKernels::load(std::shared_ptr<const cuda::CudaDevice> device) {
  // Communicators of one process share what is loaded on a device.
  static std::mutex mutex;
  static auto& loaded = *new std::map<cuda::Device, std::weak_ptr<const CudaKernels>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const CudaKernels>& known = loaded[device->ordinal()];
  if (auto found = known.lock()) return found;
  std::shared_ptr<CudaKernels> made(new CudaKernels(std::move(device)));
  TUTTI_TRY(made->loadModules());
  known = made;
  return std::shared_ptr<const CudaKernels>(made);
}

Status CudaKernels::loadModules() {
  const cuda::CudaScope scope(*device_);
  for (const void* const* image = tutti_cuda_images; *image != nullptr; ++image) {
    cuda::Module module = nullptr;
    const Status status = cuda::check(device_->driver(), device_->driver().cuModuleLoadData(&module, *image), "");
    if (!status.ok()) {
      return invalidUsage(ErrorCode::NoKernels, "this build of Tutti has no kernels for CUDA device ",
                          device_->ordinal(), " (see the build options cuda and gpu_archs): ", status.message());
    }
    modules_.push_back(module);
  }
  TUTTI_ASSIGN(copy_, find("tutti_pass_Copy"));
  for (int t = 0; t < tuttiNumTypes; ++t) {
    const auto dtype = static_cast<tuttiDataType_t>(t);
    const auto index = static_cast<size_t>(t);
    for (int op = 0; op < tuttiNumOps; ++op) {
      if (!validOpForType(static_cast<tuttiRedOp_t>(op), dtype)) continue;
      TUTTI_ASSIGN(reduce_[index][static_cast<size_t>(op)], find(reduceKernel(dtype, static_cast<tuttiRedOp_t>(op))));
    }
    if (dtype == tuttiBool) continue;
    TUTTI_ASSIGN(scale_[index], find("tutti_scale_" + formatName(dtype, false)));
    TUTTI_ASSIGN(divide_[index], find("tutti_divide_" + formatName(dtype, true)));
  }
  return loadWalks();
}

Status CudaKernels::loadWalks() {
  TUTTI_ASSIGN(walkCopy_, find("tutti_walk_Copy"));
  TUTTI_ASSIGN(walkAny_, find("tutti_walk_Any"));
  for (const tuttiDataType_t dtype : {tuttiFloat32, tuttiFloat16, tuttiBfloat16}) {
    TUTTI_ASSIGN(walkSum_[static_cast<size_t>(dtype)], find("tutti_walk_" + formatName(dtype, true)));
  }
  std::vector<cuda::Function> all(walkSum_.begin(), walkSum_.end());
  all.insert(all.end(), {walkCopy_, walkAny_});
  int least = 64;
  for (const cuda::Function function : all) {
    if (function == nullptr) continue;
    int blocks = 0;
    TUTTI_CUDA(device_->driver(),
               cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, kernels::kWalkThreads, 0));
    least = std::min(least, blocks);
  }
  int together = 0;  // whether there are launches that start all of their blocks at once
  TUTTI_CUDA(device_->driver(), cuDeviceGetAttribute(&together, cuda::kAttributeCooperativeLaunch, device_->ordinal()));
  mostWalkBlocks_ = together == 0 ? 0 : static_cast<uint32_t>(least * device_->multiprocessors());
  return {};
}

CudaKernels::~CudaKernels() {
  const cuda::CudaScope scope(*device_);
  for (const cuda::Module module : modules_) device_->driver().cuModuleUnload(module);
}

Result<cuda::Function> CudaKernels::find(const std::string& name) const {
  cuda::Function function = nullptr;
  for (const cuda::Module module : modules_) {
    if (device_->driver().cuModuleGetFunction(&function, module, name.c_str()) == cuda::kSuccess) return function;
  }
  return internalError(ErrorCode::KernelMissing, "there is no kernel ", name);
}

Status CudaKernels::launch(cuda::Stream stream, cuda::Function function, void* arguments, size_t bytes) const {
  const size_t most = static_cast<size_t>(device_->multiprocessors()) * kBlocksPerMultiprocessor;
  const auto blocks = static_cast<unsigned>(std::clamp<size_t>(bytes / kBytesPerBlock, 1, most));
  void* parameters[] = {arguments};
  return cuda::check(
      device_->driver(),
      device_->driver().cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel");
}

Status CudaKernels::reduce(cuda::Stream stream, const Reduction& r, void* dst, std::span<const void* const> sources,
                           size_t count) const {
  if (count == 0) return {};
  TUTTI_ASSERT(r.function == nullptr && sources.size() >= 2);
  PassArguments a{};
  a.nCalls = 1;
  // More than one launch can take: the result so far is the first source of the next.
  for (size_t done = 0; done < sources.size();) {
    a.nRanks = 0;
    if (done > 0) a.sides[a.nRanks++].input = static_cast<const unsigned char*>(dst);
    while (a.nRanks < kMostPassRanks && done < sources.size()) {
      a.sides[a.nRanks++].input = static_cast<const unsigned char*>(sources[done++]);
    }
    a.sides[0].output = static_cast<unsigned char*>(dst);
    a.calls[0] = passCall(Collective::Reduce, count * dataTypeBytes(r.dtype), 0, static_cast<int>(a.nRanks));
    TUTTI_TRY(pass(stream, passFor(r, Collective::Reduce), &a, passBlocks()));
  }
  return {};
}

CudaKernels::Pass CudaKernels::passFor(const Reduction& r, Collective collective) const {
  if (!reduces(collective)) return {copy_, true, exchangesBlocks(collective)};
  const cuda::Function function = reduce_[static_cast<size_t>(r.dtype)][static_cast<size_t>(operatorOf(r))];
  TUTTI_ASSERT(function != nullptr);
  return {function, false, false};
}

// Every kernel copies as well.  One alone exchanges: that would be two fifths of the compiling of each.
bool CudaKernels::Pass::join(const Pass& other) {
  const bool exchange = exchanges || other.exchanges;
  if (exchange && !(copies && other.copies)) return false;
  if (copies) *this = other;
  exchanges = exchange;
  return other.copies || function == other.function;
}

Status CudaKernels::pass(cuda::Stream stream, const Pass& kernel, PassArguments* arguments, uint32_t mostBlocks) const {
  cutTiles(arguments, mostBlocks);
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(arguments->nTiles, mostBlocks));
  if (blocks == 0) return {};
  void* parameters[] = {arguments};
  return cuda::check(device_->driver(),
                     device_->driver().cuLaunchKernel(kernel.function, blocks, 1, 1, kernels::kWalkThreads, 1, 1, 0,
                                                      stream, parameters, nullptr),
                     "cuLaunchKernel");
}

uint32_t CudaKernels::passBlocks() const {
  return static_cast<uint32_t>(device_->multiprocessors()) * kBlocksPerMultiprocessor;
}

Status CudaKernels::walk(cuda::Stream stream, const Reduction& r, Collective collective,
                         kernels::WalkArguments* arguments, uint32_t blocks) const {
  cuda::Function function = walkCopy_;
  if (reduces(collective)) {
    const tuttiRedOp_t op = operatorOf(r);
    function = op == tuttiSum ? walkSum_[static_cast<size_t>(r.dtype)] : nullptr;
    if (function == nullptr) {
      function = walkAny_;
      arguments->what = walkCode(reduceKernel(r.dtype, op));
    }
  }
  void* parameters[] = {arguments};
  return cuda::check(device_->driver(),
                     device_->driver().cuLaunchCooperativeKernel(function, blocks, 1, 1, kernels::kWalkThreads, 1, 1, 0,
                                                                 stream, parameters),
                     "cuLaunchCooperativeKernel");
}

Status CudaKernels::scale(cuda::Stream stream, tuttiDataType_t dtype, void* dst, const void* src, const void* scalar,
                          bool onDevice, size_t count) const {
  if (count == 0) return {};
  ScaleArguments a{};
  a.source = static_cast<const unsigned char*>(src);
  a.dst = static_cast<unsigned char*>(dst);
  a.count = count;
  if (onDevice) {
    a.scalar = static_cast<const unsigned char*>(scalar);
  } else {
    std::memcpy(&a.immediate, scalar, dataTypeBytes(dtype));
  }
  return launch(stream, scale_[static_cast<size_t>(dtype)], &a, count * dataTypeBytes(dtype));
}

Status CudaKernels::divide(cuda::Stream stream, tuttiDataType_t dtype, void* data, int divisor, size_t count) const {
  if (count == 0 || dtype == tuttiBool || divisor == 1) return {};
  ScaleArguments a{};
  a.source = static_cast<const unsigned char*>(data);
  a.dst = static_cast<unsigned char*>(data);
  a.count = count;
  a.divisor = divisor;
  return launch(stream, divide_[static_cast<size_t>(dtype)], &a, count * dataTypeBytes(dtype));
}

}  // namespace tutti
