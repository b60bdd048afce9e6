// The test driver itself: that it sees what it says it sees.  What it must not do is left in a graph that is never
// launched, as not even a test driver can do it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/gpu.hpp"
#include "tests/support/resident_bytes.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

class Mistakes {
 public:
  explicit Mistakes(const char* settings) : gpu_(settings) {
    if (there()) own_ = std::make_unique<GpuRank>(0);
  }
  static bool there() { return FakeCuda::get().reset != nullptr; }
  const GpuRank& own() const { return *own_; }
  const cuda::Driver& driver() const { return gpu_.driver(); }

  /// Whether the driver complains of `mistake`, which enqueues on the stream, in these words.
  bool sees(const char* words, const std::function<void(cuda::Stream)>& mistake) const {
    cuda::Graph graph = nullptr;
    const bool before = Gpu::complaints().find(words) != std::string::npos;
    driver().cuStreamBeginCapture(own_->stream(), cuda::kCaptureModeRelaxed);
    mistake(own_->stream());
    driver().cuStreamEndCapture(own_->stream(), &graph);
    driver().cuGraphDestroy(graph);
    return !before && Gpu::complaints().find(words) != std::string::npos;
  }

 private:
  Gpu gpu_;
  std::unique_ptr<GpuRank> own_;
};

cuda::Address allocate(size_t bytes, int device) { return cuda::addressOf(Gpu::allocate(bytes, device, false)); }
void release(cuda::Address memory) { Gpu::free(reinterpret_cast<void*>(memory)); }

}  // namespace

TEST_CASE("the test driver sees accesses to memory that are wrong") {
  const Mistakes m("devices=2");
  if (!Mistakes::there()) return;
  const cuda::Driver& d = m.driver();
  const cuda::Address here = allocate(1000, 0), there = allocate(1000, 1), gone = allocate(1000, 0);
  release(gone);
  int onStack = 0;
  CHECK(m.sees("source of a copy", [&](cuda::Stream s) { d.cuMemcpyAsync(here, gone, 8, s); }));
  CHECK(Gpu::complaints().find("is freed memory") != std::string::npos);
  CHECK(m.sees("target of a copy", [&](cuda::Stream s) { d.cuMemcpyAsync(here + 996, here, 8, s); }));
  CHECK(Gpu::complaints().find("leaves its allocation") != std::string::npos);
  CHECK(m.sees("is no memory of the driver",
               [&](cuda::Stream s) { d.cuMemsetD8Async(cuda::addressOf(&onStack), 0, 4, s); }));
  CHECK(m.sees("is not open to the device", [&](cuda::Stream s) { d.cuMemsetD8Async(there, 0, 8, s); }));
  CHECK(m.sees("is memory of another device or process",
               [&](cuda::Stream s) { d.cuStreamWaitValue32(s, there, 1, cuda::kWaitEqual); }));
  release(here);
  release(there);
}

TEST_CASE("devices use each other's memory in the test driver once that is enabled, which it is once") {
  const Mistakes m("devices=2");
  if (!Mistakes::there()) return;
  const cuda::Driver& d = m.driver();
  const auto other = *cuda::CudaDevice::open(1);
  const cuda::Address there = allocate(1000, 1);
  CHECK(d.cuCtxEnablePeerAccess(other->context(), 0) == cuda::kSuccess);
  CHECK(d.cuCtxEnablePeerAccess(other->context(), 0) == cuda::kErrorPeerAccessAlreadyEnabled);
  CHECK(!m.sees("is not open to the device", [&](cuda::Stream s) { d.cuMemsetD8Async(there, 0, 8, s); }));
  release(there);
}

TEST_CASE("the test driver sees work in another context's stream, and what is never given back") {
  const Mistakes m("devices=2");
  if (!Mistakes::there()) return;
  const cuda::Driver& d = m.driver();
  const auto other = *cuda::CudaDevice::open(1);
  const cuda::Address here = allocate(100, 0), lost = allocate(100, 0);
  release(here);
  CHECK(Gpu::complaints().find("was never freed") != std::string::npos);
  release(lost);
  CHECK(Gpu::complaints().find("was never freed") == std::string::npos);
  cuda::Event event = nullptr;
  CHECK(d.cuEventCreate(&event, 0) == cuda::kSuccess);
  CHECK(Gpu::complaints().find("1 events were never destroyed") != std::string::npos);
  CHECK(Gpu::complaints().find("1 streams were never destroyed") != std::string::npos);  // m's
  d.cuEventDestroy(event);
  CHECK(d.cuEventDestroy(event) == cuda::kErrorInvalidHandle);
  {
    const cuda::CudaScope scope(*other);
    CHECK(d.cuLaunchHostFunc(
              m.own().stream(), [](void*) {}, nullptr) == cuda::kErrorInvalidContext);
  }
  CHECK(Gpu::complaints().find("another context") != std::string::npos);
}

// The hazard of a device whose streams share queues: what comes first in a queue holds up what would let it go.
TEST_CASE("one hardware queue holds up a stream behind another's wait, and several do not") {
  const bool one = GENERATE(true, false);
  const Mistakes m(one ? "devices=1;queues=1" : "devices=1");
  if (!Mistakes::there()) return;
  const cuda::Driver& d = m.driver();
  const GpuRank writer(0);
  const cuda::Address word = allocate(4, 0);
  auto* value = reinterpret_cast<uint32_t*>(word);
  __atomic_store_n(value, 0u, __ATOMIC_RELEASE);
  CHECK(d.cuStreamWaitValue32(m.own().stream(), word, 1, cuda::kWaitEqual) == cuda::kSuccess);
  CHECK(d.cuStreamWriteValue32(writer.stream(), word, 1, 0) == cuda::kSuccess);
  if (one) {
    for (int look = 0; look < 20; ++look) cuda::pauseBetweenLooks();
    CHECK(d.cuStreamQuery(writer.stream()) == cuda::kErrorNotReady);
    __atomic_store_n(value, 1u, __ATOMIC_RELEASE);
  }
  CHECK(m.own().synchronize() == "");
  CHECK(writer.synchronize() == "");
  release(word);
}

TEST_CASE("the test driver fails the call that it is told to, once, and delays what streams do") {
  const Mistakes m("devices=1;delay=2000;fail=cuMemAlloc:3:2");
  if (!Mistakes::there()) return;
  const cuda::Driver& d = m.driver();
  std::vector<cuda::Address> kept;
  for (int call = 1; call <= 4; ++call) {
    cuda::Address memory = 0;
    CHECK(d.cuMemAlloc(&memory, 16) == (call == 3 ? cuda::kErrorOutOfMemory : cuda::kSuccess));
    if (memory != 0) kept.push_back(memory);
  }
  CHECK(FakeCuda::get().calls("cuMemAlloc") == 4);
  // Of a hundred operations one at least begins later than the next call.
  bool late = false;
  for (int i = 0; i < 100 && !late; ++i) {
    d.cuMemsetD8Async(kept[0], 0, 16, m.own().stream());
    late = d.cuStreamQuery(m.own().stream()) == cuda::kErrorNotReady;
  }
  CHECK(late);
  CHECK(m.own().synchronize() == "");
  for (const cuda::Address memory : kept) release(memory);
}

// The sanitizer would keep a clock of each word that is released, and has few clocks.
TEST_CASE("filling many words leaves nothing of each with the thread sanitizer") {
  const Mistakes m("devices=1");
  if (!Mistakes::there()) return;
  constexpr size_t kWords = size_t{1} << 18;
  const cuda::Address memory = allocate(kWords * 4, 0);
  m.driver().cuMemsetD8Async(memory, 0, kWords * 4, m.own().stream());
  CHECK(m.own().synchronize() == "");
  const uint64_t before = residentBytes();
  CHECK(m.driver().cuMemsetD32Async(memory, 7, kWords, m.own().stream()) == cuda::kSuccess);
  CHECK(m.own().synchronize() == "");
  CHECK(residentBytes() < before + kWords * 64);
  const auto* words = reinterpret_cast<const uint32_t*>(memory);
  CHECK(std::count(words, words + kWords, 7u) == static_cast<long>(kWords));
  release(memory);
}
