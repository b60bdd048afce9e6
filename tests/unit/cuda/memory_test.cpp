// Device memory of tuttiMemAlloc, and the virtual memory under it.
#include <catch2/catch.hpp>

#include "src/device/cuda/alloc.hpp"
#include "src/device/cuda/virtual.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

std::string errorText() { return tuttiGetLastError(nullptr); }
bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tuttiMemAlloc gives memory of the current device where ranks compute on devices") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const char* const driver = GENERATE("devices=2", "devices=2;vmm=0");
  CAPTURE(driver);
  {
    const Gpu gpu(driver);
    const int ordinal = gpu.has(2) ? 1 : 0;
    const GpuRank own(ordinal);
    const auto device = *cuda::CudaDevice::open(ordinal);
    void* memory = nullptr;
    void* none = &memory;
    REQUIRE(tuttiMemAlloc(&memory, 100'001) == tuttiSuccess);
    CHECK((tuttiMemAlloc(&none, 0) == tuttiSuccess && none == nullptr));
    CHECK(tuttiMemFree(nullptr) == tuttiSuccess);
    const cuda::MemoryInfo info = *device->memoryInfo(static_cast<char*>(memory) + 100'000);
    CHECK(info.kind == cuda::MemoryInfo::Kind::OnDevice);
    CHECK(info.device == ordinal);
    CHECK(gpu.driver().cuMemsetD8Async(cuda::addressOf(memory), 7, 100'001, own.stream()) == cuda::kSuccess);
    CHECK(tuttiMemFree(static_cast<char*>(memory) + 1) == tuttiInvalidArgument);
    CHECK(tuttiMemFree(memory) == tuttiSuccess);  // waits for the stream
    CHECK(tuttiMemFree(memory) == tuttiInvalidArgument);
    CHECK(says(errorText(), "already free"));
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("device memory is not freed while somebody holds it or a capture is under way") {
  const Variable where("TUTTI_DEVICE", "cuda");
  {
    const Gpu gpu;
    const GpuRank own(0);
    void* memory = nullptr;
    REQUIRE(tuttiMemAlloc(&memory, 10) == tuttiSuccess);
    {
      const auto held = cuda::holdDeviceMemory(static_cast<char*>(memory) + 9);
      REQUIRE(held != nullptr);
      CHECK(tuttiMemFree(memory) == tuttiInvalidUsage);
    }
    cuda::Graph graph = nullptr;
    REQUIRE(gpu.driver().cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
    CHECK(tuttiMemFree(memory) == tuttiInvalidUsage);
    CHECK(says(errorText(), "captured"));
    CHECK(gpu.driver().cuStreamEndCapture(own.stream(), &graph) == cuda::kErrorCaptureInvalidated);
    CHECK(tuttiMemFree(memory) == tuttiSuccess);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("what the driver refuses while memory is made leaves nothing behind") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const char* const refused = GENERATE("cuMemCreate:1:2", "cuMemAddressReserve:1:2", "cuMemMap:1:1",
                                       "cuMemSetAccess:1:101", "cuMemGetAllocationGranularity:1:801");
  CAPTURE(refused);
  {
    const Gpu gpu((std::string("fail=") + refused).c_str());
    if (FakeCuda::get().reset == nullptr) return;
    void* memory = &memory;
    const tuttiResult_t result = tuttiMemAlloc(&memory, 1000);
    CHECK((result == tuttiSystemError || result == tuttiUnhandledCudaError));
    CHECK(memory == nullptr);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("network adapters can reach tuttiMemAlloc's pages where the device has such") {
  const Variable where("TUTTI_DEVICE", "cuda");
  const bool has = GENERATE(true, false);
  {
    const Gpu gpu(has ? "" : "rdma=0");
    if (FakeCuda::get().journal == nullptr) return;
    const GpuRank own(0);
    void* memory = nullptr;
    REQUIRE(tuttiMemAlloc(&memory, 1000) == tuttiSuccess);
    CHECK(says(FakeCuda::get().journal(), "cuMemCreate\npages that network adapters can reach\n") == has);
    CHECK(tuttiMemFree(memory) == tuttiSuccess);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("pages stay while anybody has them mapped") {
  {
    const Gpu gpu("devices=2");
    const GpuRank own(0);
    const auto device = *cuda::CudaDevice::open(0);
    cuda::DeviceMapping reader;
    {
      const auto pages = *cuda::DevicePages::create(device, 5000);
      const auto writer = *cuda::DeviceMapping::of(pages);
      CHECK(gpu.driver().cuMemsetD8Async(writer.address(), 9, 5000, own.stream()) == cuda::kSuccess);
      CHECK(own.synchronize() == "");
      const auto behind = *cuda::DevicePages::behind(device, reinterpret_cast<void*>(writer.address() + 4999));
      const Fd descriptor = *behind.descriptor();
      const auto imported = *cuda::DevicePages::import(device, descriptor.get(), behind.bytes());
      reader = *cuda::DeviceMapping::forReader(imported, device);
      CHECK(reader.bytes() == writer.bytes());
      CHECK(reader.address() != writer.address());
    }
    unsigned char seen[5000] = {};
    gpu.driver().cuMemcpyAsync(cuda::addressOf(seen), reader.address(), sizeof seen, own.stream());
    CHECK(own.synchronize() == "");
    CHECK((seen[0] == 9 && seen[4999] == 9));
    int onStack = 0;
    CHECK(cuda::DevicePages::behind(device, &onStack).status().code() == tuttiInvalidArgument);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("the test driver sees mistakes with virtual memory") {
  const Gpu gpu;
  if (FakeCuda::get().reset == nullptr) return;
  const GpuRank own(0);
  const auto device = *cuda::CudaDevice::open(0);
  cuda::Address gone = 0;
  {
    const auto pages = *cuda::DevicePages::create(device, 100);
    const auto mapping = *cuda::DeviceMapping::of(pages);
    gone = mapping.address();
    CHECK(says(Gpu::complaints(), "was never released"));
    CHECK(says(Gpu::complaints(), "still reserved"));
    CHECK(gpu.driver().cuMemAddressFree(gone, mapping.bytes()) != cuda::kSuccess);  // mapped
    CHECK(gpu.driver().cuMemMap(gone, mapping.bytes(), 0, pages.handle(), 0) != cuda::kSuccess);
  }
  CHECK(!says(Gpu::complaints(), "leak"));
  // Into a graph that is never launched: memory that is not there cannot be written, even here.
  cuda::Graph graph = nullptr;
  REQUIRE(gpu.driver().cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
  CHECK(gpu.driver().cuMemsetD8Async(gone, 1, 1, own.stream()) == cuda::kSuccess);
  REQUIRE(gpu.driver().cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
  gpu.driver().cuGraphDestroy(graph);
  CHECK(says(Gpu::complaints(), "unmapped memory"));
}
