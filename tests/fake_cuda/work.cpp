// What streams do: copies, fills, host functions, and kernels by their host builds.
#include <cstring>

#include "src/exec/kernels/pass_body.hpp"
#include "src/exec/kernels/scale_body.hpp"
#include "src/exec/kernels/walk_body.hpp"
#include "tests/fake_cuda/fake.hpp"
#include "tests/support/host_walk.hpp"

namespace tutti::fake {
namespace {

using namespace tutti::kernels;

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

template <class Arguments, void (*body)(HostTeam, const Arguments&)>
void runAs(const void* arguments, uint64_t me, uint64_t n) {
  body(HostTeam{me, n}, *static_cast<const Arguments*>(arguments));
}

/// A block for each thread, or two threads for one, so that barriers are seen to be there.
template <class Arithmetic>
void walkAs(const void* arguments, uint64_t blocks, uint64_t) {
  const auto& a = *static_cast<const WalkArguments*>(arguments);
  std::vector<std::thread> threads;
  for (uint32_t block = 0; block < blocks; ++block) {
    const uint32_t n = 1 + block % 2;
    auto state = std::make_shared<LaneState>();
    auto barrier = std::make_shared<HostBarrier>(n);
    for (uint32_t me = 0; me < n; ++me) {
      threads.emplace_back([&a, block, n, me, state, barrier] {
        walkBlock<Arithmetic, HostBlock, HostMemory, HostPatience>(HostBlock{me, n, barrier.get()}, a, block,
                                                                   state.get());
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}
void checkWalk(const void* arguments, int device) {
  const auto& a = *static_cast<const WalkArguments*>(arguments);
  if (a.nMembers < 1 || a.nMembers > kMostMembers) complain("a walk of too few or too many ranks");
  if (a.started != nullptr)
    checkRange(reinterpret_cast<Address>(a.started), sizeof(uint32_t), device, "start of a walk");
  for (uint32_t m = 0; m < a.nMembers && m < kMostMembers; ++m) {
    checkRange(reinterpret_cast<Address>(a.members[m].program), sizeof(WalkProgram), device, "program of a walk");
    checkRange(reinterpret_cast<Address>(a.members[m].abort), sizeof(uint32_t), device, "abort word of a walk");
  }
}

/// Block `me` of `n`, of one thread.
template <class Arithmetic>
void passAs(const void* arguments, uint64_t me, uint64_t n) {
  PassState state;
  HostBarrier barrier(1);
  Pass<Arithmetic, HostBlock>({0, 1, &barrier}, *static_cast<const PassArguments*>(arguments), &state).run(me, n);
}
void checkPass(const void* arguments, int device) {
  const auto& a = *static_cast<const PassArguments*>(arguments);
  if (a.nCalls < 1 || a.nCalls > kMostPassCalls || a.nCalls * a.nRanks > kMostPassSides) {
    return complain("a pass of too few or too many calls and ranks");
  }
  for (uint32_t side = 0; side < a.nCalls * a.nRanks; ++side) {
    const PassCall& call = a.calls[side / a.nRanks];
    const uint32_t rank = side % a.nRanks;
    const auto check = [&](const void* at, size_t bytes, const char* what) {
      if (bytes > 0) checkRange(reinterpret_cast<Address>(at), bytes, device, what);
    };
    check(a.sides[side].input, passInputBytes(call, rank, a.nRanks), "input of a pass");
    check(a.sides[side].output, passOutputBytes(call, rank, a.nRanks), "output of a pass");
  }
}

template <size_t elementBytes>
void checkScale(const void* arguments, int device) {
  const auto& a = *static_cast<const ScaleArguments*>(arguments);
  checkRange(reinterpret_cast<Address>(a.source), a.count * elementBytes, device, "source of a scaling");
  checkRange(reinterpret_cast<Address>(a.dst), a.count * elementBytes, device, "result of a scaling");
  if (a.scalar != nullptr) checkRange(reinterpret_cast<Address>(a.scalar), elementBytes, device, "scalar");
}

const HostKernel kKernels[] = {
#define TUTTI_FAKE_PASS(Name, ...) {"tutti_pass_" #Name, sizeof(PassArguments), passAs<__VA_ARGS__>, checkPass},
#define TUTTI_FAKE_REDUCE(F, Op) TUTTI_FAKE_PASS(F##_##Op, Reduces<F, Op>)
#define TUTTI_FAKE_SCALE(F)                                                                      \
  {"tutti_scale_" #F, sizeof(ScaleArguments), runAs<ScaleArguments, scaleElements<F, HostTeam>>, \
   checkScale<sizeof(F::Stored)>},
#define TUTTI_FAKE_DIVIDE(F)                                                                       \
  {"tutti_divide_" #F, sizeof(ScaleArguments), runAs<ScaleArguments, divideElements<F, HostTeam>>, \
   checkScale<sizeof(F::Stored)>},
#define TUTTI_FAKE_WALK(Name, ...) {"tutti_walk_" #Name, sizeof(WalkArguments), walkAs<__VA_ARGS__>, checkWalk},
    TUTTI_WALK_KERNELS(TUTTI_FAKE_WALK) TUTTI_FAKE_PASS(Copy, NoArithmetic) TUTTI_REDUCE_KERNELS(TUTTI_FAKE_REDUCE)
        TUTTI_SCALE_KERNELS(TUTTI_FAKE_SCALE) TUTTI_DIVIDE_KERNELS(TUTTI_FAKE_DIVIDE)};

}  // namespace

const HostKernel* findKernel(const char* name) {
  for (const HostKernel& kernel : kKernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return findLayerKernel(name);
}

Error cuMemcpyAsync(Address dst, Address src, size_t bytes, Stream stream) {
  TUTTI_FAKE_ENTER(cuMemcpyAsync);
  checkCopyRange(dst, bytes, "target of a copy");
  checkCopyRange(src, bytes, "source of a copy");
  return enqueue(stream, [=] {
    checkCopyRange(dst, bytes, "target of a running copy");
    checkCopyRange(src, bytes, "source of a running copy");
    std::memcpy(pointer(dst), pointer(src), bytes);
  });
}
Error cuMemsetD8Async(Address dst, unsigned char value, size_t bytes, Stream stream) {
  TUTTI_FAKE_ENTER(cuMemsetD8Async);
  checkRange(dst, bytes, deviceOfStream(stream), "fill");
  return enqueue(stream, [=] { std::memset(pointer(dst), value, bytes); });
}
Error cuMemsetD32Async(Address dst, unsigned value, size_t count, Stream stream) {
  TUTTI_FAKE_ENTER(cuMemsetD32Async);
  checkRange(dst, count * 4, deviceOfStream(stream), "fill");
  return enqueue(stream, [=] {
    // Relaxed, as a fill tells nobody of what was before it: the thread sanitizer keeps a clock of each word released,
    // and begins anew after some four million releases of a process (tools/check says what that may cost).
    auto* words = static_cast<uint32_t*>(pointer(dst));
    for (size_t i = 0; i < count; ++i) __atomic_store_n(words + i, value, __ATOMIC_RELAXED);
  });
}
Error cuLaunchHostFunc(Stream stream, HostFunction function, void* data) {
  TUTTI_FAKE_ENTER(cuLaunchHostFunc);
  return enqueue(stream, [=] { function(data); });
}

Error cuModuleLoadData(Module* module, const void* image) {
  TUTTI_FAKE_ENTER(cuModuleLoadData);
  if (image == nullptr) return kErrorInvalidImage;
  *module = new CUmod_st{deviceOf(currentContext())};
  return kSuccess;
}
// Functions are never freed: they are few, and a late launch must find one.
Error cuModuleGetFunction(Function* function, Module module, const char* name) {
  TUTTI_FAKE_ENTER(cuModuleGetFunction);
  const HostKernel* kernel = findKernel(name);
  if (kernel == nullptr) return kErrorNotFound;
  static std::mutex mutex;
  static std::map<std::pair<int, const HostKernel*>, CUfunc_st> made;
  const std::lock_guard lock(mutex);
  *function = &made.try_emplace({module->device, kernel}, CUfunc_st{module->device, kernel}).first->second;
  return kSuccess;
}
Error cuModuleUnload(Module module) {
  TUTTI_FAKE_ENTER(cuModuleUnload);
  delete module;
  return kSuccess;
}

/// What a launch is refused for, or the kernel's arguments as they are now.
Error readLaunch(Function function, unsigned gridX, unsigned blockX, void** parameters, std::vector<char>* arguments) {
  if (gridX == 0 || blockX == 0 || blockX > 1024) return kErrorInvalidValue;
  if (currentContext() == nullptr || deviceOf(currentContext()) != function->device) {
    complain("a kernel is launched in another context than that of its module");
    return kErrorInvalidContext;
  }
  const auto* bytes = static_cast<const char*>(parameters[0]);
  arguments->assign(bytes, bytes + function->kernel->argumentBytes);
  function->kernel->check(arguments->data(), function->device);
  return kSuccess;
}

Error cuLaunchKernel(Function function, unsigned gridX, unsigned, unsigned, unsigned blockX, unsigned, unsigned,
                     unsigned, Stream stream, void** parameters, void**) {
  TUTTI_FAKE_ENTER(cuLaunchKernel);
  std::vector<char> arguments;
  if (const Error error = readLaunch(function, gridX, blockX, parameters, &arguments); error != kSuccess) return error;
  // As many threads as make the strides differ from a single one's.
  return enqueue(stream, [kernel = function->kernel, device = function->device, arguments] {
    const Room room(device, 1);
    constexpr uint64_t kThreads = 3;
    for (uint64_t me = 0; me < kThreads; ++me) kernel->run(arguments.data(), me, kThreads);
  });
}

// Of kernels whose blocks wait for each other: all run at once, when there is room for all, and before that none.
Error cuLaunchCooperativeKernel(Function function, unsigned gridX, unsigned, unsigned, unsigned blockX, unsigned,
                                unsigned, unsigned, Stream stream, void** parameters) {
  TUTTI_FAKE_ENTER(cuLaunchCooperativeKernel);
  if (gridX > kMultiprocessors * kBlocksPerMultiprocessor) return kErrorCooperativeTooLarge;
  std::vector<char> arguments;
  if (const Error error = readLaunch(function, gridX, blockX, parameters, &arguments); error != kSuccess) return error;
  return enqueue(stream, [kernel = function->kernel, device = function->device, arguments, gridX] {
    const Room room(device, static_cast<int>(gridX));
    kernel->run(arguments.data(), gridX, 0);
  });
}
Error cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t) {
  TUTTI_FAKE_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = kBlocksPerMultiprocessor;
  return kSuccess;
}

}  // namespace tutti::fake
