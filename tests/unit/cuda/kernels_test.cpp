// The reduction kernels, launched by their names through the driver, against the plainest loops.
#include <catch2/catch.hpp>

#include "src/exec/cuda/cuda_kernels.hpp"
#include "tests/support/gpu.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Managed memory for operands at chosen distances from alignment.
class Slab {
 public:
  explicit Slab(size_t bytes) : memory_(static_cast<char*>(Gpu::allocate(bytes, 0, true))) { REQUIRE(memory_); }
  ~Slab() { Gpu::free(memory_); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  char* at(size_t offset) const { return memory_ + offset; }

 private:
  char* memory_;
};

constexpr size_t kStride = kMost + 64;
constexpr size_t kCount = 1003;

struct Fixture {
  Gpu gpu;
  std::shared_ptr<cuda::CudaDevice> device = *cuda::CudaDevice::open(0);
  cuda::CudaScope scope{*device};
  std::shared_ptr<const CudaKernels> kernels = *CudaKernels::load(device);
  GpuRank rank{0};
};

}  // namespace

TEST_CASE("kernels reduce every type with every operator as the plainest loop does") {
  {
    Fixture f;
    const Slab slab(20 * kStride);
    for (const tuttiDataType_t type : allTypes()) {
      Operands operands(type);
      const size_t bytes = kCount * dataTypeBytes(type);
      for (const tuttiRedOp_t op : opsOf(type)) {
        for (const size_t n : {size_t{2}, size_t{3}, size_t{17}}) {
          // All alike, alike but off alignment, and each elsewhere.
          for (const size_t step : {size_t{0}, dataTypeBytes(type), size_t{1}}) {
            std::vector<const void*> sources, plain;
            for (size_t s = 0; s < n; ++s) {
              const size_t shift = step == dataTypeBytes(type) ? step : step * (s + 1);
              char* at = slab.at(s * kStride + shift);
              std::memcpy(at, operands.data[s].data(), bytes);
              sources.push_back(at);
              plain.push_back(operands.data[s].data());
            }
            char* dst = slab.at(18 * kStride + step);
            const bool ok =
                f.kernels->reduce(f.rank.stream(), {type, op, nullptr, nullptr}, dst, sources, kCount).ok() &&
                f.rank.synchronize().empty();
            naiveReduce(type, op, operands.want.data(), plain, kCount);
            const long bad = firstDifference(type, dst, operands.want.data(), kCount);
            if (ok && bad < 0) continue;
            FAIL_CHECK(dataTypeName(type)
                       << " " << redOpName(op) << " of " << n << " at steps of " << step << ": element " << bad);
          }
        }
      }
    }
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("kernels scale and divide as the host does") {
  {
    Fixture f;
    const Slab slab(4 * kStride);
    for (const tuttiDataType_t type : allTypes()) {
      if (type == tuttiBool) continue;
      Operands operands(type);
      const size_t bytes = kCount * dataTypeBytes(type);
      std::vector<char> want(bytes);
      char scalar[8] = {};
      putValue(type, scalar, 3);
      std::memcpy(slab.at(0), operands.data[0].data(), bytes);
      std::memcpy(slab.at(2 * kStride), scalar, sizeof scalar);
      for (const bool onDevice : {false, true}) {
        const void* factor = onDevice ? static_cast<const void*>(slab.at(2 * kStride)) : scalar;
        CHECK(f.kernels->scale(f.rank.stream(), type, slab.at(kStride), slab.at(0), factor, onDevice, kCount).ok());
        CHECK(f.rank.synchronize() == "");
        scale(type, want.data(), operands.data[0].data(), scalar, kCount);
        CAPTURE(dataTypeName(type), onDevice);
        CHECK(firstDifference(type, slab.at(kStride), want.data(), kCount) == -1);
      }
      for (const int divisor : {3, 200}) {
        CHECK(f.kernels->divide(f.rank.stream(), type, slab.at(kStride), divisor, kCount).ok());
        CHECK(f.rank.synchronize() == "");
        divide(type, want.data(), divisor, kCount);
        CAPTURE(dataTypeName(type), divisor);
        CHECK(firstDifference(type, slab.at(kStride), want.data(), kCount) == -1);
      }
    }
  }
  CHECK(Gpu::complaints() == "");
}
