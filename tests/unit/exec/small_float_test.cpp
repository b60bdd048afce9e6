// Rounding, once and to nearest even, of the types that reduce in float.
#include <catch2/catch.hpp>

#include "src/exec/reduce/reduce.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

TEST_CASE("all values of the small floats pass through the reference's double, and through a reduction with zero") {
  for (const tuttiDataType_t type : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
    const Format f = formatOf(type);
    const size_t bytes = dataTypeBytes(type);
    const size_t all = size_t{1} << f.bits;
    std::vector<char> values(all * bytes), zeros(all * bytes), sums(all * bytes);
    for (size_t i = 0; i < all; ++i) {
      std::memcpy(values.data() + i * bytes, &i, bytes);  // little endian
      const size_t negativeZero = all / 2;                // x + -0 is x for every x, -0 too
      std::memcpy(zeros.data() + i * bytes, &negativeZero, bytes);
    }
    reducePair({.dtype = type}, sums.data(), values.data(), zeros.data(), all);
    size_t wrong = 0;
    for (size_t i = 0; i < all; ++i) {
      const double value = decode(f, static_cast<unsigned>(i));
      uint16_t back = 0;
      putValue(type, &back, value);
      const unsigned expected =
          std::isinf(value) && f.saturates ? static_cast<unsigned>(i) - 1 : static_cast<unsigned>(i);
      const double sum = decode(f, bytes == 2 ? at<uint16_t>(sums.data(), i) : at<uint8_t>(sums.data(), i));
      if (std::isnan(value)) {
        if (!std::isnan(decode(f, back)) || !std::isnan(sum)) ++wrong;
      } else if (back != expected || sum != decode(f, expected)) {
        ++wrong;
      }
    }
    CAPTURE(dataTypeName(type));
    CHECK(wrong == 0);
  }
}

TEST_CASE("the reference rounds to nearest even, once, and float8 saturates") {
  struct Row {
    tuttiDataType_t type;
    double value, expected;
  };
  const double kInfinity = INFINITY;
  const Row rows[] = {
      {tuttiFloat16, 2049, 2048},          {tuttiFloat16, 2051, 2052},
      {tuttiFloat16, 65519, 65504},        {tuttiFloat16, 65520, kInfinity},
      {tuttiFloat16, 0x1p-25, 0},          {tuttiFloat16, 0x1.8p-24, 0x1p-23},
      {tuttiFloat16, 2049 + 1e-9, 2050},  // as a float first, it would be the tie 2049 and become 2048
      {tuttiBfloat16, 257, 256},           {tuttiBfloat16, 259, 260},
      {tuttiBfloat16, 3.4e38, kInfinity},  {tuttiBfloat16, 0x1.8p-133, 0x1p-132},
      {tuttiFloat8e4m3, 17, 16},           {tuttiFloat8e4m3, 19, 20},
      {tuttiFloat8e4m3, 464, 448},         {tuttiFloat8e4m3, 1e9, 448},
      {tuttiFloat8e4m3, -kInfinity, -448}, {tuttiFloat8e4m3, 0x1p-10, 0},
      {tuttiFloat8e4m3, 0x1.8p-9, 0x1p-8}, {tuttiFloat8e5m2, 9, 8},
      {tuttiFloat8e5m2, 11, 12},           {tuttiFloat8e5m2, 61440, 57344},
      {tuttiFloat8e5m2, kInfinity, 57344}, {tuttiFloat8e5m2, 0x1p-17, 0},
  };
  for (const Row& row : rows) {
    uint16_t element = 0;
    putValue(row.type, &element, row.value);
    CAPTURE(dataTypeName(row.type), row.value);
    CHECK(valueOf(row.type, &element) == row.expected);
  }
}

TEST_CASE("several sources of a small float are rounded once, not once per source") {
  // 2048 + 1 + 1: pairwise in float16 each 1 is lost to a tie; in float they add up.
  for (const size_t count : {1, 40}) {
    std::vector<uint16_t> large(count), one(count), result(count);
    for (size_t i = 0; i < count; ++i) {
      putValue(tuttiFloat16, &large[i], 2048);
      putValue(tuttiFloat16, &one[i], 1);
    }
    const std::vector<const void*> sources = {large.data(), one.data(), one.data()};
    reduceMany({.dtype = tuttiFloat16}, result.data(), sources, count);
    CHECK(valueOf(tuttiFloat16, &result[count - 1]) == 2050);
  }
}
