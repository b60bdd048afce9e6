// The bodies of the kernels that scale and divide.  They wait for nothing: a launch always ends.
#pragma once

#include "src/exec/kernels/formats.hpp"
#include "src/exec/kernels/operators.hpp"

namespace tutti::kernels {

/// What the host passes by value to the kernels that scale (by *scalar, or by `immediate` when scalar is null) and
/// divide (by `divisor`).
struct ScaleArguments {
  const unsigned char* source;
  unsigned char* dst;
  const unsigned char* scalar;
  uint64_t immediate;  // the bits of one element, from the first byte on
  uint64_t count;
  int32_t divisor;
  uint32_t reserved;
};
static_assert(sizeof(ScaleArguments) == 48, "host and device agree on the layout");

/// dst[i] = source[i] * scalar.
template <class Format, class Team>
TUTTI_HD void scaleElements(Team team, const ScaleArguments& a) {
  using Stored = typename Format::Stored;
  Stored scalar;
  memcpy(&scalar, &a.immediate, sizeof scalar);
  if (a.scalar != nullptr) scalar = loadElement<Stored>(a.scalar);
  const auto factor = Format::widen(scalar);
  for (uint64_t i = team.index(); i < a.count; i += team.size()) {
    const auto value = Format::widen(loadElement<Stored>(a.source + i * sizeof(Stored)));
    storeElement<Stored>(a.dst + i * sizeof(Stored), Format::narrow(Prod::combine(value, factor)));
  }
}

/// dst[i] = source[i] / divisor; integers round toward zero.
template <class Format, class Team>
TUTTI_HD void divideElements(Team team, const ScaleArguments& a) {
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const auto divisor = static_cast<decltype(Value{} + int32_t{})>(a.divisor);  // 8 and 16 bits: as int
  for (uint64_t i = team.index(); i < a.count; i += team.size()) {
    const Value value = Format::widen(loadElement<Stored>(a.source + i * sizeof(Stored)));
    storeElement<Stored>(a.dst + i * sizeof(Stored), Format::narrow(static_cast<Value>(value / divisor)));
  }
}

}  // namespace tutti::kernels
