// What computations rely on, of each kind of Device: the host, and CUDA.
#include "src/device/device.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "src/exec/cuda/cuda_images.hpp"
#include "src/exec/kernels/kernel_list.hpp"
#include "src/exec/kernels/scale_body.hpp"
#include "tests/support/gpu.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

using Floats = std::vector<float>;
constexpr size_t kFloats = 5000, kFloatBytes = kFloats * sizeof(float);

struct Alone {
  static constexpr uint64_t index() { return 0; }
  static constexpr uint64_t size() { return 1; }
};
constexpr const char* kNames[] = {"tutti_scale_F32"};
constexpr void (*kFunctions[])(const void*) = {[](const void* argument) {
  kernels::scaleElements<kernels::F32>(Alone(), *static_cast<const kernels::ScaleArguments*>(argument));
}};

/// On CUDA with the image, of all in the library, that has the kernel.
std::shared_ptr<Device> openKind(bool onHost) {
  KernelSet set{"tests", nullptr, kNames, kFunctions};
  if (onHost) return openHost(set);
  for (const void* const* image = tutti_cuda_images; *image != nullptr; ++image) {
    set.image = *image;
    if (Result<std::shared_ptr<Device>> device = openCuda(0, set); device.ok()) return *device;
  }
  return nullptr;
}

/// x *= 2
Status twice(Device& device, void* x) {
  kernels::ScaleArguments arguments{
      static_cast<unsigned char*>(x), static_cast<unsigned char*>(x), nullptr, 0, kFloats, 1, 0};
  const float by = 2;
  std::memcpy(&arguments.immediate, &by, sizeof by);
  return device.launch(0, &arguments, kFloats);
}
Floats counted(float from) {
  Floats values(kFloats);
  std::iota(values.begin(), values.end(), from);
  return values;
}
Floats read(Device& device, const void* x) {
  Floats values(kFloats, -1);
  CHECK(device.get(values.data(), x, kFloatBytes).ok());
  return values;
}
Floats times(Floats values, float by) {
  for (float& value : values) value *= by;
  return values;
}

/// body(device) with each kind in turn, under a driver of these settings; nothing is left behind.
template <class Body>
void onEachKind(const char* settings, const Body& body) {
  for (const bool onHost : {true, false}) {
    CAPTURE(onHost);
    {
      const Gpu gpu(settings);
      const std::shared_ptr<Device> device = openKind(onHost);
      REQUIRE(device != nullptr);
      CHECK(device->onHost() == onHost);
      CHECK(device->ordinal() == (onHost ? Device::kHost : 0));
      body(*device);
    }
    CHECK(Gpu::complaints() == "");
  }
}

}  // namespace

TEST_CASE("each kind of device: what goes in, is copied, set to zero and computed comes out, in the order of calls") {
  onEachKind("delay=100", [](Device& device) {
    const Result<void*> a = device.allocate(kFloatBytes), b = device.allocate(kFloatBytes);
    REQUIRE((a.ok() && b.ok()));
    CHECK(device.put(*a, counted(1).data(), kFloatBytes).ok());
    CHECK(device.copy(*b, *a, kFloatBytes).ok());
    CHECK(twice(device, *b).ok());
    CHECK(twice(device, *b).ok());
    CHECK(device.zero(*a, kFloatBytes / 2).ok());
    CHECK(read(device, *b) == times(counted(1), 4));
    Floats half = counted(1);
    std::fill(half.begin(), half.begin() + kFloats / 2, 0.0f);
    CHECK(read(device, *a) == half);
    // Of no bytes, no address is asked for.
    CHECK(device.copy(nullptr, nullptr, 0).ok());
    CHECK(device.zero(nullptr, 0).ok());
    CHECK(device.put(nullptr, nullptr, 0).ok());
    CHECK(device.get(nullptr, nullptr, 0).ok());
    device.release(*a);
    device.release(*b);
  });
}

TEST_CASE("each kind of device: nothing is at NULL, and room for work at no time is") {
  onEachKind("", [](Device& device) {
    const Result<void*> none = device.allocate(0), room = device.scratch(0);
    REQUIRE((none.ok() && room.ok()));
    CHECK(*none == nullptr);
    CHECK(*room != nullptr);
    device.release(*none);
    const Result<void*> more = device.scratch(kFloatBytes);
    REQUIRE(more.ok());
    CHECK(device.put(*more, counted(3).data(), kFloatBytes).ok());
    CHECK(read(device, *more) == counted(3));
    const Result<void*> again = device.scratch(kFloatBytes);
    REQUIRE(again.ok());
    CHECK(*again == *more);
    CHECK(device.trim().ok());
  });
}

TEST_CASE("each kind of device: a task beside reads what was enqueued before, and is read after its mark") {
  onEachKind("delay=300", [](Device& device) {
    const Result<void*> a = device.allocate(kFloatBytes), b = device.allocate(kFloatBytes);
    REQUIRE((a.ok() && b.ok()));
    for (float from = 1; from < 6; ++from) {
      CHECK(device.put(*a, counted(from).data(), kFloatBytes).ok());
      CHECK(twice(device, *a).ok());
      const Result<Device::Mark> mark = device.beside([&] {
        const Result<void*> own = device.allocate(kFloatBytes);
        REQUIRE(own.ok());
        CHECK(device.copy(*own, *a, kFloatBytes).ok());
        CHECK(twice(device, *own).ok());
        CHECK(device.copy(*b, *own, kFloatBytes).ok());
        device.release(*own);
      });
      REQUIRE(mark.ok());
      CHECK(device.follow(*mark).ok());
      CHECK(twice(device, *b).ok());
      CHECK(read(device, *b) == times(counted(from), 8));
    }
    device.release(*a);
    device.release(*b);
  });
}

TEST_CASE("each kind of device: an exception of a task beside passes through, and work goes on as before") {
  onEachKind("", [](Device& device) {
    const Result<tuttiStream_t> before = device.stream();
    CHECK_THROWS_AS(device.beside([] { throw std::runtime_error("no"); }), std::runtime_error);
    const Result<tuttiStream_t> after = device.stream();
    REQUIRE((before.ok() && after.ok()));
    CHECK(*after == *before);
  });
}

TEST_CASE("each kind of device: a mark is done when what came before it has been waited for") {
  onEachKind("delay=300", [](Device& device) {
    CHECK(*device.done(nullptr));
    CHECK(device.follow(nullptr).ok());
    const Result<void*> a = device.allocate(kFloatBytes);
    REQUIRE(a.ok());
    CHECK(device.zero(*a, kFloatBytes).ok());
    const Result<Device::Mark> mark = device.mark();
    REQUIRE(mark.ok());
    CHECK(device.wait().ok());
    const Result<bool> done = device.done(*mark);
    REQUIRE(done.ok());
    CHECK(*done);
    device.release(*a);
  });
}

TEST_CASE("each kind of device: work keeps its order when the thread goes on with a stream of its own, and back") {
  onEachKind("delay=300", [](Device& device) {
    const Result<void*> a = device.allocate(kFloatBytes), b = device.allocate(kFloatBytes);
    const Result<tuttiStream_t> own = device.ownStream();
    REQUIRE((a.ok() && b.ok() && own.ok()));
    CHECK((*own == nullptr) == device.onHost());
    for (float from = 1; from < 6; ++from) {
      CHECK(device.put(*a, counted(from).data(), kFloatBytes).ok());
      CHECK(twice(device, *a).ok());
      setThreadStream(*own);
      const Result<tuttiStream_t> now = device.stream();
      REQUIRE(now.ok());
      CHECK(*now == *own);
      CHECK(device.copy(*b, *a, kFloatBytes).ok());
      setThreadStream(nullptr);
      CHECK(device.zero(*a, kFloatBytes).ok());
      CHECK(read(device, *b) == times(counted(from), 2));
    }
    device.release(*a);
    device.release(*b);
  });
}

TEST_CASE("CUDA's kind of device hands out again what was released, to work of the same stream, until it is trimmed") {
  {
    const Gpu gpu;
    const std::shared_ptr<Device> device = openKind(false);
    REQUIRE(device != nullptr);
    const Result<void*> a = device->allocate(kFloatBytes);
    REQUIRE(a.ok());
    device->release(*a);
    CHECK(device
              ->beside([&] {
                const Result<void*> other = device->allocate(kFloatBytes);
                REQUIRE(other.ok());
                CHECK(*other != *a);
                device->release(*other);
              })
              .ok());
    const Result<void*> again = device->allocate(kFloatBytes - 100);
    REQUIRE(again.ok());
    CHECK(*again == *a);
    device->release(*again);
    const auto frees = [] { return FakeCuda::get().calls == nullptr ? -1 : FakeCuda::get().calls("cuMemFree"); };
    const int before = frees();
    CHECK(device->trim().ok());
    if (before >= 0) CHECK(frees() - before == 2);
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE(
    "CUDA's kind of device says what the driver refuses, and takes back memory before it says that none is left") {
  if (FakeCuda::get().reset == nullptr) return;
  {
    const Gpu gpu("fail=cuMemAllocAsync:2:2");
    const std::shared_ptr<Device> device = openKind(false);
    REQUIRE(device != nullptr);
    const Result<void*> first = device->allocate(kFloatBytes), second = device->allocate(2 * kFloatBytes);
    CHECK((first.ok() && second.ok()));  // the second's second attempt
  }
  {
    const Gpu gpu("fail=cuMemcpyAsync:1:400");
    const std::shared_ptr<Device> device = openKind(false);
    REQUIRE(device != nullptr);
    const Result<void*> memory = device->allocate(kFloatBytes);
    REQUIRE(memory.ok());
    const Status status = device->put(*memory, counted(1).data(), kFloatBytes);
    CHECK(status.code() == tuttiUnhandledCudaError);
    CHECK(status.message().find("cuMemcpyAsync") != std::string::npos);
    CHECK(device->put(*memory, counted(1).data(), kFloatBytes).ok());
  }
  {
    const Gpu gpu("fail=cuModuleLoadData:1:209");
    const KernelSet set{"tests", tutti_cuda_images[0], kNames, kFunctions};
    CHECK(openCuda(0, set).status().message().find("no kernels of tests for CUDA device 0") != std::string::npos);
    CHECK(openCuda(7, set).status().code() == tuttiInvalidArgument);
  }
  CHECK(Gpu::complaints() == "");
}
