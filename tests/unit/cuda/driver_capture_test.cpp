// The test driver is as strict about captures as the documentation of cuThreadExchangeStreamCaptureMode and
// cuStreamBeginCapture is.
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "src/device/cuda/stream.hpp"
#include "tests/support/gpu.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// A capture on a stream of its own, which something is done to.
class Captured {
 public:
  explicit Captured(int mode) {
    if (there()) begun_ = d().cuStreamBeginCapture(own_.stream(), mode) == cuda::kSuccess;
  }
  ~Captured() { end(); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  static bool there() { return FakeCuda::get().reset != nullptr; }
  const GpuRank& own() const { return own_; }
  const cuda::Driver& d() const { return own_.driver(); }
  cuda::Error end() {
    if (!begun_) return cuda::kErrorInvalidValue;
    begun_ = false;
    cuda::Graph graph = nullptr;
    const cuda::Error error = d().cuStreamEndCapture(own_.stream(), &graph);
    CHECK((graph == nullptr) == (error != cuda::kSuccess));
    if (graph != nullptr) d().cuGraphDestroy(graph);
    return error;
  }

 private:
  GpuRank own_{0};
  bool begun_ = false;
};

/// An allocation, in a mode of the thread's.
cuda::Error allocates(const cuda::Driver& d, int mode) {
  cuda::Address memory = 0;
  d.cuThreadExchangeStreamCaptureMode(&mode);
  const cuda::Error error = d.cuMemAlloc(&memory, 16);
  if (error == cuda::kSuccess) d.cuMemFree(memory);
  d.cuThreadExchangeStreamCaptureMode(&mode);
  return error;
}

constexpr int kGlobal = cuda::kCaptureModeGlobal, kLocal = cuda::kCaptureModeThreadLocal,
              kRelaxed = cuda::kCaptureModeRelaxed;

}  // namespace

TEST_CASE("unsafe calls are refused beside captures as the modes of thread and capture have it, and break these") {
  const Gpu gpu;
  if (!Captured::there()) return;
  struct Row {
    int capture, thread;
    bool another, refused;
  };
  for (const Row& row :
       {Row{kGlobal, kGlobal, false, true}, Row{kGlobal, kLocal, false, true}, Row{kGlobal, kRelaxed, false, false},
        Row{kLocal, kGlobal, false, true}, Row{kRelaxed, kGlobal, false, false}, Row{kGlobal, kGlobal, true, true},
        Row{kGlobal, kLocal, true, false}, Row{kGlobal, kRelaxed, true, false}, Row{kLocal, kGlobal, true, false},
        Row{kRelaxed, kGlobal, true, false}}) {
    CAPTURE(row.capture, row.thread, row.another);
    Captured c(row.capture);
    cuda::Error error = cuda::kSuccess;
    if (row.another) {
      std::thread([&] {
        const auto device = *cuda::CudaDevice::open(0);
        c.d().cuCtxPushCurrent(device->context());
        error = allocates(c.d(), row.thread);
        cuda::Context popped = nullptr;
        c.d().cuCtxPopCurrent(&popped);
      }).join();
    } else {
      error = allocates(c.d(), row.thread);
    }
    CHECK(error == (row.refused ? cuda::kErrorCaptureUnsupported : cuda::kSuccess));
    CHECK(c.end() == (row.refused ? cuda::kErrorCaptureInvalidated : cuda::kSuccess));
  }
}

TEST_CASE("what asks for the end of captured work is refused in every mode, and breaks the capture") {
  const Gpu gpu;
  if (!Captured::there()) return;
  cuda::EventHandle event;
  REQUIRE(event.create(*cuda::CudaDevice::open(0)).ok());
  struct Row {
    cuda::Error error;
    std::function<cuda::Error(const Captured&)> call;
  };
  const Row rows[] = {
      {cuda::kErrorCaptureUnsupported, [](const Captured& c) { return c.d().cuStreamQuery(c.own().stream()); }},
      {cuda::kErrorCaptureUnsupported, [](const Captured& c) { return c.d().cuStreamSynchronize(c.own().stream()); }},
      {cuda::kErrorCaptureUnsupported, [](const Captured& c) { return c.d().cuCtxSynchronize(); }},
      {cuda::kErrorCapturedEvent, [&](const Captured& c) { return c.d().cuEventQuery(event.get()); }},
      {cuda::kErrorCapturedEvent, [&](const Captured& c) { return c.d().cuEventSynchronize(event.get()); }},
  };
  for (const Row& row : rows) {
    Captured c(kRelaxed);
    CHECK(c.d().cuEventRecord(event.get(), c.own().stream()) == cuda::kSuccess);
    CHECK(row.call(c) == row.error);
    int status = 0;
    CHECK(c.d().cuStreamIsCapturing(c.own().stream(), &status) == cuda::kSuccess);
    CHECK(status == cuda::kCaptureInvalidated);
    CHECK(c.d().cuEventRecord(event.get(), c.own().stream()) == cuda::kErrorCaptureInvalidated);
    CHECK(c.end() == cuda::kErrorCaptureInvalidated);
  }
}

TEST_CASE("captures take no work from outside, and end where they began with all that joined them") {
  const Gpu gpu;
  if (!Captured::there()) return;
  const GpuRank other(0);
  cuda::EventHandle event, back;
  REQUIRE((event.create(*cuda::CudaDevice::open(0)).ok() && back.create(*cuda::CudaDevice::open(0)).ok()));
  const cuda::Address memory = cuda::addressOf(Gpu::allocate(16, 0, false));
  const auto fork = [&](const Captured& c) {
    return c.d().cuEventRecord(event.get(), c.own().stream()) == cuda::kSuccess &&
           c.d().cuStreamWaitEvent(other.stream(), event.get(), 0) == cuda::kSuccess &&
           c.d().cuMemsetD8Async(memory, 1, 16, other.stream()) == cuda::kSuccess;
  };
  {  // of work that is not captured
    Captured c(kRelaxed);
    CHECK(c.d().cuEventRecord(event.get(), other.stream()) == cuda::kSuccess);
    CHECK(c.d().cuStreamWaitEvent(c.own().stream(), event.get(), 0) == cuda::kErrorCaptureIsolation);
    CHECK(c.end() == cuda::kErrorCaptureInvalidated);
  }
  {  // of another capture
    Captured c(kRelaxed), second(kRelaxed);
    CHECK(c.d().cuEventRecord(event.get(), c.own().stream()) == cuda::kSuccess);
    CHECK(c.d().cuStreamWaitEvent(second.own().stream(), event.get(), 0) == cuda::kErrorCaptureMerge);
    CHECK(second.end() == cuda::kErrorCaptureInvalidated);
    CHECK(c.end() == cuda::kErrorCaptureInvalidated);
    CHECK(c.d().cuStreamWaitEvent(other.stream(), event.get(), 0) == cuda::kErrorCapturedEvent);
  }
  {
    Captured c(kRelaxed);
    CHECK(fork(c));
    CHECK(c.end() == cuda::kErrorCaptureUnjoined);
  }
  {
    Captured c(kRelaxed);
    CHECK(fork(c));
    CHECK(c.d().cuEventRecord(back.get(), other.stream()) == cuda::kSuccess);
    CHECK(c.d().cuStreamWaitEvent(c.own().stream(), back.get(), 0) == cuda::kSuccess);
    CHECK(c.end() == cuda::kSuccess);
  }
  {
    Captured c(kRelaxed);
    cuda::Graph graph = nullptr;
    CHECK(fork(c));
    CHECK(c.d().cuStreamEndCapture(other.stream(), &graph) == cuda::kErrorCaptureUnmatched);
    CHECK(c.end() == cuda::kErrorCaptureInvalidated);
  }
  {
    Captured c(kLocal);
    cuda::Error error = cuda::kSuccess;
    std::thread([&] {
      cuda::Graph graph = nullptr;
      error = c.d().cuStreamEndCapture(c.own().stream(), &graph);
    }).join();
    CHECK(error == cuda::kErrorCaptureWrongThread);
    CHECK(c.end() == cuda::kErrorCaptureInvalidated);
  }
  CHECK(gpu.driver().cuStreamBeginCapture(nullptr, kRelaxed) == cuda::kErrorCaptureUnsupported);
  Gpu::free(reinterpret_cast<void*>(memory));
}

TEST_CASE("the legacy default stream takes no work while one that it waits for is captured, and breaks the capture") {
  const Gpu gpu;
  if (!Captured::there()) return;
  const GpuRank own(0);
  const cuda::Driver& d = own.driver();
  const cuda::Address memory = cuda::addressOf(Gpu::allocate(16, 0, false));
  cuda::Stream blocking = nullptr;
  cuda::Graph graph = nullptr;
  REQUIRE(d.cuStreamCreate(&blocking, 0) == cuda::kSuccess);
  REQUIRE(d.cuStreamBeginCapture(blocking, kRelaxed) == cuda::kSuccess);
  int status = 0;
  CHECK(d.cuStreamIsCapturing(nullptr, &status) == cuda::kErrorCaptureImplicit);  // breaks nothing
  CHECK((d.cuStreamIsCapturing(blocking, &status) == cuda::kSuccess && status == cuda::kCaptureActive));
  CHECK(d.cuMemsetD8Async(memory, 1, 16, nullptr) == cuda::kErrorCaptureImplicit);
  CHECK(d.cuStreamEndCapture(blocking, &graph) == cuda::kErrorCaptureInvalidated);
  CHECK(d.cuStreamDestroy(blocking) == cuda::kSuccess);
  Gpu::free(reinterpret_cast<void*>(memory));
}
