// The device layer: contexts, kinds of memory, errors of the driver.
#include <catch2/catch.hpp>
#include <thread>

#include "src/device/cuda/stream.hpp"
#include "tests/support/gpu.hpp"

using namespace tutti;
using namespace tutti::test;
using Kind = cuda::MemoryInfo::Kind;

TEST_CASE("memory is told apart by what the driver says of its address") {
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    const auto device = *cuda::CudaDevice::open(1);
    const auto kindOf = [&](const void* p) { return (*device->memoryInfo(p)).kind; };
    int onStack = 0;
    void* onDevice = Gpu::allocate(100, 1, false);
    void* managed = Gpu::allocate(100, 1, true);
    void* elsewhere = Gpu::allocate(100, 0, false);
    void* pinned = nullptr;
    const cuda::CudaScope scope(*device);
    REQUIRE(gpu.driver().cuMemHostAlloc(&pinned, 100, cuda::kHostAllocPortable) == cuda::kSuccess);
    CHECK(kindOf(&onStack) == Kind::Pageable);
    CHECK(kindOf(static_cast<char*>(onDevice) + 99) == Kind::OnDevice);
    CHECK(kindOf(managed) == Kind::Managed);
    CHECK(kindOf(pinned) == Kind::Pinned);
    CHECK((*device->memoryInfo(elsewhere)).device == 0);
    CHECK(device->checkUsable(onDevice, "x").ok());
    CHECK(device->checkUsable(pinned, "x").ok());
    if (!gpu.reachesPageable()) CHECK(device->checkUsable(&onStack, "sendbuff").message().find("sendbuff") == 0);
    CHECK(device->checkUsable(elsewhere, "x").message().find("CUDA device 0") != std::string::npos);
    Gpu::free(onDevice);
    Gpu::free(managed);
    Gpu::free(elsewhere);
    gpu.driver().cuMemFreeHost(pinned);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a scope leaves the thread's current context as it was, and lets captures be") {
  const Gpu gpu("devices=2");
  if (!gpu.has(2)) return;
  const auto first = *cuda::CudaDevice::open(0);
  const auto second = *cuda::CudaDevice::open(1);
  const auto current = [&] {
    cuda::Context context = nullptr;
    gpu.driver().cuCtxGetCurrent(&context);
    return context;
  };
  CHECK(current() == nullptr);
  {
    const cuda::CudaScope outer(*first);
    CHECK(current() == first->context());
    {
      const cuda::CudaScope inner(*second);
      CHECK(current() == second->context());
      CHECK(*cuda::currentDevice() == 1);
    }
    CHECK(current() == first->context());
    std::thread([&] { CHECK_NOFAIL(current() == nullptr); }).join();
  }
  CHECK(current() == nullptr);
}

TEST_CASE("what the driver refuses is an error that names the call") {
  const Gpu gpu("devices=1;fail=cuMemAlloc:2:2");
  if (FakeCuda::get().reset == nullptr) return;
  const auto device = *cuda::CudaDevice::open(0);
  CHECK(cuda::CudaDevice::open(1).status().message() == "there is no CUDA device 1; the driver shows 1");
  const auto kept = cuda::DeviceMemory::allocate(device, 10);
  REQUIRE(kept.ok());
  CHECK(cuda::DeviceMemory::allocate(device, 1000).status().code() == tuttiSystemError);
  CHECK(cuda::check(gpu.driver(), cuda::kErrorInvalidHandle, "cuFoo").message() ==
        "cuFoo gave CUDA_ERROR_INVALID_HANDLE 400 (said by the test driver)");
}

TEST_CASE("waits and writes that follow each other are enqueued as one, in their order") {
  {
    const Gpu gpu;
    const GpuRank own(0);
    const auto device = *cuda::CudaDevice::open(0);
    const auto enqueued = [] {
      return FakeCuda::get().calls == nullptr ? -1 : FakeCuda::get().calls("cuStreamBatchMemOp");
    };
    const int before = enqueued();
    void* memory = Gpu::allocate(8, 0, false);
    const cuda::Address word = cuda::addressOf(memory), other = word + 4;
    uint32_t zero = 0, result = 0;
    cuda::StreamOps ops(device);
    ops.use(own.stream());
    CHECK(ops.copy(memory, &zero, 4).ok());
    for (uint32_t i = 0; i < 300; ++i) {  // more than one takes
      CHECK((ops.write(word, i).ok() && ops.waitFor(word, i).ok()));
    }
    CHECK(ops.copy(&result, memory, 4).ok());
    CHECK(ops.flush().ok());  // of nothing
    CHECK((ops.write(other, 5).ok() && ops.waitUntil(other, 4).ok() && ops.flush().ok()));
    CHECK(own.synchronize() == "");
    CHECK(result == 299);
    if (before >= 0) CHECK(enqueued() - before == 4);
    Gpu::free(memory);
  }
  CHECK(Gpu::complaints() == "");
}
