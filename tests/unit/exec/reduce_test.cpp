// Every loop against a naive one.
#include <catch2/catch.hpp>

#include "src/exec/reduce/reduce.hpp"
#include "src/exec/reduce/reduce_kernels.hpp"
#include "src/exec/reduce/simd_dispatch.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("every type, operator, number of sources, count and alignment reduces as the naive loop does") {
  for (const tuttiDataType_t type : allTypes()) {
    DYNAMIC_SECTION(dataTypeName(type)) {
      Operands operands(type);
      for (const size_t nSources : {2, 3, 5, 8, 17}) {
        for (const size_t offset : {size_t{0}, dataTypeBytes(type), size_t{13}}) {
          const auto sources = operands.sources(nSources, offset);
          for (const tuttiRedOp_t op : opsOf(type)) {
            naiveReduce(type, op, operands.want.data(), sources, kCounts.back());
            for (const size_t count : kCounts) {
              char* got = operands.got.data() + offset;
              std::fill(operands.got.begin(), operands.got.end(), char{0x5a});
              if (nSources == 2 && count % 2 == 1) {
                reducePair({.dtype = type, .op = op}, got, sources[0], sources[1], count);
              } else {
                // A large whole makes it store past the cache.
                const size_t whole = offset != 0 || count % 2 == 0 ? size_t{1} << 40 : 0;
                reduceMany({.dtype = type, .op = op}, got, sources, count, whole);
              }
              const long bad = firstDifference(type, got, operands.want.data(), count);
              const bool beyond = got[count * dataTypeBytes(type)] != 0x5a || (offset > 0 && got[-1] != 0x5a);
              if (bad >= 0 || beyond) {
                CAPTURE(redOpName(op), nSources, offset, count, bad, beyond);
                FAIL_CHECK("differs from the naive loop");
              }
            }
          }
        }
      }
    }
  }
}

#if TUTTI_HAVE_HIGHWAY && defined(__x86_64__)
TEST_CASE("every instruction set of this machine gives what the naive loop does") {
  const SimdLevel best = simdLevel();
  for (int level = 0; level <= static_cast<int>(best); ++level) {
    simdLevel() = static_cast<SimdLevel>(level);
    for (const tuttiDataType_t type : allTypes()) {
      const TypeKernels kernels = findKernels(type);
      Operands operands(type);
      const auto sources = operands.sources(3, 1);
      const auto* from = reinterpret_cast<const std::byte* const*>(sources.data());
      for (const tuttiRedOp_t op : opsOf(type)) {
        naiveReduce(type, op, operands.want.data(), sources, 1003);
        for (const bool stream : {false, true}) {
          kernels.reduce[op](reinterpret_cast<std::byte*>(operands.got.data()), from, 3, 1003, stream);
          CAPTURE(level, dataTypeName(type), redOpName(op), stream);
          CHECK(firstDifference(type, operands.got.data(), operands.want.data(), 1003) == -1);
        }
      }
    }
  }
  simdLevel() = best;
}
#endif

TEST_CASE("dst may be any one of the sources") {
  for (const tuttiDataType_t type : allTypes()) {
    Operands operands(type);
    const size_t count = 1000;
    for (const size_t nSources : {1, 2, 5}) {
      for (size_t s = 0; s < nSources; ++s) {
        const auto sources = operands.sources(nSources, 3);
        naiveReduce(type, tuttiSum, operands.want.data(), sources, count);
        if (nSources == 1) std::memcpy(operands.want.data(), sources[0], count * dataTypeBytes(type));
        void* dst = const_cast<void*>(sources[s]);
        reduceMany({.dtype = type}, dst, sources, count, size_t{1} << 40);
        CAPTURE(dataTypeName(type), nSources, s);
        CHECK(firstDifference(type, dst, operands.want.data(), count) == -1);
      }
    }
  }
}
