// The test driver refuses what the documentation says that drivers refuse: calls without a context or in a forked
// child, arguments, words and memory of the wrong kind; and default streams wait as it says.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "src/device/cuda/virtual.hpp"
#include "src/exec/cuda/cuda_kernels.hpp"
#include "tests/support/gpu.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

bool onFake() { return FakeCuda::get().reset != nullptr; }
bool complained(const char* words) { return Gpu::complaints().find(words) != std::string::npos; }

}  // namespace

TEST_CASE("calls need a context that is there") {
  {
    const Gpu gpu;
    if (!onFake()) return;
    const cuda::Driver& d = gpu.driver();
    cuda::Address memory = 0;
    cuda::Context popped = nullptr;
    CHECK(d.cuMemAlloc(&memory, 16) == cuda::kErrorInvalidContext);
    CHECK(d.cuCtxPushCurrent(nullptr) == cuda::kErrorInvalidContext);
    cuda::Context gone = nullptr;
    REQUIRE(d.cuDevicePrimaryCtxRetain(&gone, 0) == cuda::kSuccess);
    REQUIRE(d.cuCtxPushCurrent(gone) == cuda::kSuccess);
    REQUIRE(d.cuMemAlloc(&memory, 16) == cuda::kSuccess);
    CHECK(d.cuDevicePrimaryCtxRelease(0) == cuda::kSuccess);  // pops nothing
    CHECK(complained("a context goes that still has 1 allocations"));
    CHECK(d.cuMemFree(memory) == cuda::kErrorContextDestroyed);
    CHECK(d.cuDevicePrimaryCtxRelease(0) == cuda::kErrorInvalidContext);
    CHECK(d.cuCtxPopCurrent(&popped) == cuda::kSuccess);
    CHECK(d.cuCtxPushCurrent(gone) == cuda::kErrorContextDestroyed);
    const GpuRank own(0);
    const auto here = *cuda::CudaDevice::open(0);
    CHECK(d.cuCtxEnablePeerAccess(here->context(), 0) == cuda::kErrorInvalidContext);  // its own
    cuda::Device none = 0;
    CHECK(d.cuDeviceGet(&none, 1) == cuda::kErrorInvalidDevice);
    std::thread([&] { d.cuCtxPushCurrent(here->context()); }).join();
    CHECK(complained("a thread ends with a context that it has pushed"));
  }
}

TEST_CASE("a child that is forked has no driver, and is told so") {
  const Gpu gpu;
  if (!onFake()) return;
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const bool refused = gpu.driver().cuDeviceGetCount(&count) == cuda::kErrorNotInitialized;
    const Status said = cuda::CudaDevice::open(0).status();
    _exit(refused && said.message().find("before this process was forked") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("streams wait for words that are aligned and not managed, if they wait for words at all") {
  {
    const Gpu gpu;
    if (!onFake()) return;
    const GpuRank own(0);
    const cuda::Driver& d = own.driver();
    void* managed = Gpu::allocate(16, 0, true);
    void* plain = Gpu::allocate(16, 0, false);
    const cuda::Address word = cuda::addressOf(plain);
    CHECK(d.cuStreamWriteValue32(own.stream(), cuda::addressOf(managed), 1, 0) == cuda::kErrorInvalidValue);
    CHECK(complained("managed memory"));
    CHECK(d.cuStreamWriteValue32(own.stream(), word + 2, 1, 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuStreamWaitValue32(own.stream(), word + 1, 1, cuda::kWaitEqual) == cuda::kErrorInvalidValue);
    cuda::WordOperation both[] = {{cuda::kOperationWrite, word, 7}, {cuda::kOperationWait, word, 7, cuda::kWaitEqual}};
    CHECK(d.cuStreamBatchMemOp(own.stream(), 2, both, 1) == cuda::kErrorInvalidValue);
    CHECK(d.cuStreamBatchMemOp(own.stream(), 0, both, 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuStreamBatchMemOp(own.stream(), 2, both, 0) == cuda::kSuccess);
    std::vector<cuda::WordOperation> many(cuda::kMostWordOperations + 1, both[0]);
    CHECK(d.cuStreamBatchMemOp(own.stream(), 256, many.data(), 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuStreamBatchMemOp(own.stream(), 255, many.data(), 0) == cuda::kSuccess);
    both[1].address += 1;  // then none of them is done
    CHECK(d.cuStreamBatchMemOp(own.stream(), 2, both, 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuMemsetD32Async(word, 1, 1, own.stream()) == cuda::kSuccess);
    CHECK(own.synchronize() == "");
    Gpu::free(managed);
    Gpu::free(plain);
  }
  const Gpu without("memops=0");
  const GpuRank own(0);
  void* plain = Gpu::allocate(16, 0, false);
  CHECK(own.driver().cuStreamWriteValue32(own.stream(), cuda::addressOf(plain), 1, 0) == cuda::kErrorNotSupported);
  Gpu::free(plain);
}

TEST_CASE(
    "allocations that wait for what comes after them are seen, and those in the order of a stream wait for nothing") {
  {
    const Gpu gpu("sync=1;stuck=100");
    if (!onFake()) return;
    const GpuRank own(0), other(0);
    const cuda::Driver& d = own.driver();
    cuda::Address before = 0, pooled = 0, plain = 0;
    CHECK(d.cuMemAlloc(&before, 16) == cuda::kSuccess);
    const Gate gate;
    CHECK(gate.holdsUp(other, other.stream()));
    CHECK(d.cuMemAllocAsync(&pooled, 16, own.stream()) == cuda::kSuccess);
    CHECK(d.cuMemsetD8Async(pooled, 1, 16, own.stream()) == cuda::kSuccess);
    CHECK(own.synchronize() == "");
    CHECK(d.cuMemFree(pooled) == cuda::kSuccess);
    CHECK(!complained("waits for the device"));
    CHECK(d.cuMemAlloc(&plain, 16) == cuda::kSuccess);
    CHECK(complained("cuMemAlloc waits for the device"));
    CHECK(d.cuMemFree(plain) == cuda::kSuccess);
    CHECK(complained("cuMemFree waits for the device"));
    gate.open();
    CHECK(d.cuMemFree(before) == cuda::kSuccess);
    CHECK(other.synchronize() == "");
  }
}

TEST_CASE("memory of a pool is freed when its stream comes to that") {
  {
    const Gpu gpu;
    if (!onFake()) return;
    const GpuRank own(0);
    const cuda::Driver& d = own.driver();
    cuda::Address pooled = 0, plain = 0;
    CHECK(d.cuMemAlloc(&plain, 16) == cuda::kSuccess);
    CHECK(d.cuMemFreeAsync(plain, own.stream()) == cuda::kErrorInvalidValue);
    CHECK(d.cuMemFree(plain) == cuda::kSuccess);
    CHECK(d.cuMemAllocAsync(&pooled, 16, own.stream()) == cuda::kSuccess);
    const Gate gate;
    CHECK(gate.holdsUp(own, own.stream()));
    CHECK(d.cuMemFreeAsync(pooled, own.stream()) == cuda::kSuccess);
    cuda::Address base = 0;
    size_t bytes = 0;
    CHECK(d.cuMemGetAddressRange(&base, &bytes, pooled) == cuda::kSuccess);
    gate.open();
    CHECK(own.synchronize() == "");
    CHECK(d.cuMemGetAddressRange(&base, &bytes, pooled) == cuda::kErrorInvalidValue);
    CHECK(d.cuMemFree(pooled) == cuda::kErrorInvalidValue);
  }
  CHECK(Gpu::complaints() == "");
  const Gpu without("pools=0");
  const GpuRank own(0);
  cuda::Address pooled = 0;
  CHECK(own.driver().cuMemAllocAsync(&pooled, 16, own.stream()) == cuda::kErrorNotSupported);
}

TEST_CASE("a cooperative launch starts when there is room for all of its blocks, and tells the host") {
  {
    const Gpu gpu("occupied=31");
    if (!onFake()) return;
    const GpuRank one(0), two(0);
    const auto device = *cuda::CudaDevice::open(0);
    const auto walks = *CudaKernels::load(device);
    // Two lanes without anything to do.
    struct Idle {
      kernels::WalkProgram program;
      kernels::WalkLane lanes[2];
      uint32_t abort, started[2];
    };
    const cuda::PinnedMemory room = *cuda::PinnedMemory::allocate(device, sizeof(Idle));
    auto* idle = new (room.data()) Idle{};
    idle->program.lanes = idle->lanes;
    idle->program.nLanes = 2;
    const auto launch = [&](const GpuRank& own, uint32_t blocks, uint32_t* started) {
      kernels::WalkArguments a{};
      a.nMembers = 1;
      a.members[0].program = &idle->program;
      a.members[0].abort = &idle->abort;
      a.started = started;
      a.launch = 7;
      return walks->walk(own.stream(), {tuttiFloat32, tuttiSum}, Collective::AllGather, &a, blocks).ok();
    };
    const auto started = [&](int which) { return __atomic_load_n(&idle->started[which], __ATOMIC_ACQUIRE); };
    CHECK(launch(two, 2, &idle->started[1]));
    CHECK(launch(one, 1, &idle->started[0]));
    CHECK(one.synchronize() == "");
    CHECK(started(0) == 7);
    CHECK(started(1) == 0);
    CHECK(gpu.driver().cuStreamQuery(two.stream()) == cuda::kErrorNotReady);
    FakeCuda::get().occupy(0);
    CHECK(two.synchronize() == "");
    CHECK(started(1) == 7);
    CHECK(launch(two, 33, nullptr) == false);  // more than there ever is room for
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("memory is shared by the start of an allocation, and mapped at addresses that were asked to be aligned") {
  {
    const Gpu gpu;
    if (!onFake()) return;
    const GpuRank own(0);
    const cuda::Driver& d = own.driver();
    const auto device = *cuda::CudaDevice::open(0);
    void* plain = Gpu::allocate(100, 0, false);
    cuda::IpcHandle handle;
    CHECK(d.cuIpcGetMemHandle(&handle, cuda::addressOf(plain) + 4) == cuda::kErrorInvalidValue);
    CHECK(d.cuIpcGetMemHandle(&handle, cuda::addressOf(plain)) == cuda::kSuccess);
    cuda::Address opened = 0;
    CHECK(d.cuIpcOpenMemHandle(&opened, handle, 0) == cuda::kErrorInvalidValue);  // the flag is a must
    CHECK(d.cuIpcOpenMemHandle(&opened, handle, cuda::kIpcLazyPeerAccess) == cuda::kErrorInvalidContext);  // its own
    Gpu::free(plain);

    const auto pages = *cuda::DevicePages::create(device, 100);
    cuda::Address address = 0;
    REQUIRE(d.cuMemAddressReserve(&address, pages.bytes(), 0, 0, 0) == cuda::kSuccess);
    CHECK(d.cuMemMap(address, pages.bytes(), 0, pages.handle(), 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuMemAddressFree(address, pages.bytes()) == cuda::kSuccess);
    CHECK(d.cuMemAddressReserve(&address, 100, 0, 0, 0) == cuda::kErrorInvalidValue);
    CHECK(d.cuMemAddressReserve(&address, pages.bytes(), 3 * 4096, 0, 0) == cuda::kErrorInvalidValue);
    const auto mapping = *cuda::DeviceMapping::of(pages);
    cuda::AllocationHandle same = 0;
    CHECK(d.cuMemRetainAllocationHandle(&same, reinterpret_cast<void*>(mapping.address() + 7)) == cuda::kSuccess);
    CHECK(same == pages.handle());
    CHECK(d.cuMemRelease(same) == cuda::kSuccess);
    cuda::AllocationProperties properties;
    properties.type = cuda::kAllocationPinned;
    properties.location = {cuda::kLocationDevice, 5};
    CHECK(d.cuMemCreate(&same, pages.bytes(), &properties, 0) == cuda::kErrorInvalidDevice);
  }
  CHECK(Gpu::complaints() == "");
  const Gpu gpu;
  CHECK(gpu.driver().cuMemRelease(12345) == cuda::kErrorInvalidValue);
  CHECK(complained("a handle is released that is none"));
}

TEST_CASE("pinned memory that the device has at another address is none of a communicator's") {
  {
    const Gpu gpu;
    const GpuRank own(0);
    const auto device = *cuda::CudaDevice::open(0);
    void* combined = nullptr;
    REQUIRE(gpu.driver().cuMemHostAlloc(&combined, 100, cuda::kHostAllocWriteCombined) == cuda::kSuccess);
    CHECK(device->checkUsable(combined, "sendbuff").message().find("at another address") != std::string::npos);
    CHECK(gpu.driver().cuMemFreeHost(combined) == cuda::kSuccess);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("the legacy default stream and those that are not told apart from it wait for each other") {
  {
    const Gpu gpu;
    if (!onFake()) return;
    const GpuRank own(0);  // a stream that is told apart
    const cuda::Driver& d = own.driver();
    cuda::Stream blocking = nullptr;
    REQUIRE(d.cuStreamCreate(&blocking, 0) == cuda::kSuccess);
    void* plain = Gpu::allocate(16, 0, false);
    const auto fill = [&](cuda::Stream stream) { d.cuMemsetD8Async(cuda::addressOf(plain), 1, 16, stream); };
    for (const bool legacyFirst : {true, false}) {
      CAPTURE(legacyFirst);
      const Gate gate;
      const cuda::Stream first = legacyFirst ? nullptr : blocking, second = legacyFirst ? blocking : nullptr;
      CHECK(gate.holdsUp(own, first));
      fill(second);
      fill(own.stream());
      CHECK(own.synchronize() == "");
      CHECK(d.cuStreamQuery(second) == cuda::kErrorNotReady);
      gate.open();
      CHECK(d.cuStreamSynchronize(second) == cuda::kSuccess);
    }
    CHECK(d.cuStreamDestroy(blocking) == cuda::kSuccess);
    Gpu::free(plain);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a device that cannot do what is needed says so when a communicator comes up") {
  struct Row {
    const char* settings;
    const char* words;
  };
  for (const Row& row :
       {Row{"memops=0", "cannot wait for words in memory"}, Row{"unified=0", "no unified addressing"}}) {
    {
      const Gpu gpu(row.settings);
      if (!onFake()) return;
      tuttiUniqueId id;
      REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.device = TUTTI_DEVICE_CUDA;
      tuttiComm_t comm = nullptr;
      CHECK(tuttiCommInitRankConfig(&comm, 1, id, 0, &config) == tuttiInvalidUsage);
      CAPTURE(tuttiGetLastError(nullptr));
      CHECK(std::string(tuttiGetLastError(nullptr)).find(row.words) != std::string::npos);
    }
    CHECK(Gpu::complaints() == "");
  }
}
