// What surrounds reductions (divide, scale), operators of the user, copies.
#include <catch2/catch.hpp>

#include "src/base/copy.hpp"
#include "src/exec/reduce/reduce.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("divide rounds integers toward zero, floats once, and leaves bool") {
  for (const int divisor : {1, 2, 3, 7, 300, 65537}) {
    for (const tuttiDataType_t type : allTypes()) {
      Operands operands(type);
      const size_t bytes = dataTypeBytes(type);
      const size_t count = 131;
      auto data = std::vector<char>(operands.data[0].begin(), operands.data[0].begin() + 8 * 140);
      char* misaligned = data.data() + 1;
      std::memcpy(misaligned, operands.data[0].data(), count * bytes);
      divide(type, misaligned, divisor, count);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) {
        const char* before = operands.data[0].data() + i * bytes;
        const char* after = misaligned + i * bytes;
        if (type == tuttiInt64) {
          wrong += at<int64_t>(after, 0) != at<int64_t>(before, 0) / divisor;
        } else if (type == tuttiUint64) {
          wrong += at<uint64_t>(after, 0) != at<uint64_t>(before, 0) / static_cast<unsigned>(divisor);
        } else if (type == tuttiFloat64) {
          const double want = at<double>(before, 0) / divisor;
          wrong += std::isnan(want) ? !std::isnan(at<double>(after, 0)) : at<double>(after, 0) != want;
        } else if (isFloating(type)) {
          const float quotient = static_cast<float>(valueOf(type, before)) / static_cast<float>(divisor);
          uint64_t want = 0;
          putValue(type, &want,
                   static_cast<double>(divisor == 1 ? static_cast<float>(valueOf(type, before)) : quotient));
          if (divisor != 1) wrong += firstDifference(type, after, &want, 1) != -1;
        } else if (type == tuttiBool) {
          wrong += *after != *before;
        } else {
          wrong += valueOf(type, after) != std::trunc(valueOf(type, before) / divisor);
        }
      }
      CAPTURE(dataTypeName(type), divisor);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("scale multiplies by one element, in place too") {
  for (const tuttiDataType_t type : allTypes()) {
    Operands operands(type);
    const size_t bytes = dataTypeBytes(type);
    for (const size_t count : {0, 1, 3, 64, 131}) {
      std::vector<char> scalars(count * bytes + 8), data(count * bytes + 9);
      uint64_t scalar = 0;
      putValue(type, &scalar, 3);
      for (size_t i = 0; i < count; ++i) std::memcpy(scalars.data() + i * bytes, &scalar, bytes);
      naiveReduce(type, tuttiProd, operands.want.data(), {operands.data[0].data(), scalars.data()}, count);
      scale(type, data.data() + 1, operands.data[0].data(), &scalar, count);
      CAPTURE(dataTypeName(type), count);
      CHECK(firstDifference(type, data.data() + 1, operands.want.data(), count) == -1);
      std::memcpy(data.data() + 1, operands.data[0].data(), count * bytes);
      scale(type, data.data() + 1, data.data() + 1, &scalar, count);
      CHECK(firstDifference(type, data.data() + 1, operands.want.data(), count) == -1);
    }
  }
}

namespace {
/// Not commutative: lower * 10 + higher, modulo 2^32.  Counts its calls' elements in the context.
void decimal(const void* in, void* inout, size_t count, tuttiDataType_t, void* context) {
  auto* higher = static_cast<uint32_t*>(inout);
  const auto* lower = static_cast<const uint32_t*>(in);
  for (size_t i = 0; i < count; ++i) higher[i] = lower[i] * 10 + higher[i];
  *static_cast<size_t*>(context) += count;
}
}  // namespace

TEST_CASE("a user's operator gets lower ranks first, aligned, whatever dst is") {
  for (const size_t count : {1, 1000, 3000}) {
    for (const int dst : {-1, 0, 1, 2}) {
      size_t elements = 0;
      const Reduction r = {.dtype = tuttiUint32, .function = decimal, .context = &elements};
      std::vector<std::vector<char>> data(3, std::vector<char>(count * 4 + 1));
      for (uint32_t s = 0; s < 3; ++s) {
        const uint32_t digit = s + 1;
        for (size_t i = 0; i < count; ++i) std::memcpy(data[s].data() + 1 + i * 4, &digit, 4);
      }
      std::vector<char> result(count * 4 + 1);
      void* to = dst < 0 ? result.data() + 1 : data[static_cast<size_t>(dst)].data() + 1;
      const std::vector<const void*> sources = {data[0].data() + 1, data[1].data() + 1, data[2].data() + 1};
      reduceMany(r, to, sources, count);
      CAPTURE(count, dst);
      CHECK(at<uint32_t>(to, 0) == 123);
      CHECK(at<uint32_t>(to, count - 1) == 123);
      CHECK(elements == 2 * count);
    }
  }
  size_t elements = 0;
  const Reduction r = {.dtype = tuttiUint32, .function = decimal, .context = &elements};
  std::vector<uint32_t> a(10, 1), b(10, 2), c(10);
  reducePair(r, b.data(), a.data(), b.data(), 10);
  CHECK(b[9] == 12);
  reducePair(r, c.data(), a.data(), b.data(), 10);
  CHECK(c[9] == 22);
  reducePair(r, a.data(), a.data(), b.data(), 10);
  CHECK(a[9] == 22);
  reducePair(r, a.data(), a.data(), a.data(), 10);
  CHECK(a[9] == 242);
}

TEST_CASE("copies of every size and alignment are whole and touch nothing else") {
  std::mt19937_64 random(7);
  std::vector<char> from(3 << 20), to(3 << 20);
  for (char& c : from) c = static_cast<char>(random());
  const CopyLoops before = copyLoops();
  const CopyLoops loops = GENERATE(CopyLoops{}, CopyLoops{true, true, true});
  setCopyLoops(loops);
  CHECK(copyLoops() == loops);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, size_t{4097}, size_t{70001}, size_t{3} << 19}) {
    for (const size_t offset : {0, 1, 63}) {
      for (const size_t whole : {bytes, size_t{1} << 40}) {
        std::fill(to.begin(), to.end(), char{1});
        const bool slot = (bytes + offset) % 2 == 0;
        (slot ? copyFromSlot : copyPiece)(to.data() + offset, from.data() + offset / 2, bytes, whole);
        CAPTURE(bytes, offset, whole, slot);
        CHECK(std::memcmp(to.data() + offset, from.data() + offset / 2, bytes) == 0);
        CHECK((offset == 0 || to[offset - 1] == 1));
        CHECK(to[offset + bytes] == 1);
      }
    }
  }
  copyBytes(to.data(), from.data(), to.size());
  CHECK(to == from);
  setCopyLoops(before);
}

TEST_CASE("each amount of memory has its own way of copies") {
  const CopyLoops before = copyLoops();
  for (size_t i = 0; i < kCopyFootprints.size(); ++i) {
    CopyLoops one{};
    one[i] = true;
    setCopyLoops(one);
    CHECK(copyLoops() == one);
    for (size_t j = 0; j < kCopyFootprints.size(); ++j) CHECK(copiesAhead(kCopyFootprints[j]) == (i == j));
    CHECK(copiesAhead(1) == (i == 0));
    CHECK(copiesAhead(size_t{1} << 40) == (i + 1 == kCopyFootprints.size()));
  }
  setCopyLoops(before);
}
