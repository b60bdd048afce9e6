// The device layer: contexts, kinds of memory, errors of the driver.
#include <catch2/catch.hpp>
#include <thread>

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
