// What the kernels combine values with.  Each walk kernel is a whole executor, and compiling one takes seconds, so
// there are few: copies alone, sums of the types that training adds up, and one for every other type and operator.
//
// An arithmetic has
//   kCombines                                  false: it moves values only
//   combine(team, move, bytes, what)           several sources of `bytes` each
//   combineUnits(n, operand, what, &unit)      operands 1 to n - 1 to operand 0, which is in `unit`; operand(i, &unit)
//                                              gives 8 bytes of one, false: told to leave
// what: WalkArguments::what, for kernels that serve several.
#pragma once

#include "src/exec/kernels/kernel_list.hpp"
#include "src/exec/kernels/walk_move.hpp"

namespace tutti::kernels {

/// One type and operator on 8 bytes.
template <class Format, class Op, class Operand>
TUTTI_HD bool combineUnitsAs(uint32_t n, Operand operand, uint64_t* unit) {
  constexpr int kLanes = 8 / sizeof(typename Format::Stored);
  typename Format::Stored lanes[kLanes];
  typename Format::Value acc[kLanes];
  memcpy(lanes, unit, 8);
  TUTTI_UNROLL
  for (int k = 0; k < kLanes; ++k) acc[k] = Format::widen(lanes[k]);
  for (uint32_t i = 1; i < n; ++i) {
    uint64_t next = 0;
    if (!operand(i, &next)) return false;
    memcpy(lanes, &next, 8);
    TUTTI_UNROLL
    for (int k = 0; k < kLanes; ++k) acc[k] = Op::combine(acc[k], Format::widen(lanes[k]));
  }
  TUTTI_UNROLL
  for (int k = 0; k < kLanes; ++k) lanes[k] = Format::narrow(acc[k]);
  memcpy(unit, lanes, 8);
  return true;
}

/// For calls that only move values.
struct NoArithmetic {
  static constexpr bool kCombines = false;
  template <class Team>
  static TUTTI_HD void combine(Team, const Move&, uint64_t, uint32_t) {}
  template <class Operand>
  static TUTTI_HD bool combineUnits(uint32_t, Operand, uint32_t, uint64_t*) {
    return true;
  }
};

template <class Format, class Op>
struct Reduces {
  static constexpr bool kCombines = true;
  template <class Team>
  static TUTTI_HD void combine(Team team, const Move& m, uint64_t bytes, uint32_t) {
    combineTo<Format, Op>(team, m, bytes / sizeof(typename Format::Stored));
  }
  template <class Operand>
  static TUTTI_HD bool combineUnits(uint32_t n, Operand operand, uint32_t, uint64_t* unit) {
    return combineUnitsAs<Format, Op>(n, operand, unit);
  }
};

/// Numbers of the formats, and of the (Format, Operator)s of TUTTI_REDUCE_KERNELS.
#define TUTTI_WALK_FORMATS(X) \
  X(U8) X(U16) X(U32) X(U64) X(I8) X(I16) X(I32) X(I64) X(F32) X(F64) X(F16) X(BF16) X(E4M3) X(E5M2) X(Truth)
enum WalkFormat : uint32_t {
#define TUTTI_WALK_FORMAT(Format) kFormat##Format,
  TUTTI_WALK_FORMATS(TUTTI_WALK_FORMAT)
#undef TUTTI_WALK_FORMAT
};
enum WalkPair : uint32_t {
#define TUTTI_WALK_PAIR(Format, Op) kPair##Format##Op,
  TUTTI_REDUCE_KERNELS(TUTTI_WALK_PAIR)
#undef TUTTI_WALK_PAIR
};

/// Every type and operator, chosen anew for each element: slow, but as much code as one kernel, not as seventy.  Values
/// travel as their bits.
class AnyArithmetic {
 public:
  static constexpr bool kCombines = true;
  /// WalkArguments::what.
  static constexpr uint32_t code(uint32_t format, uint32_t pair) { return format << 16 | pair; }

  template <class Team>
  static TUTTI_HD void combine(Team team, const Move& m, uint64_t bytes, uint32_t what) {
    const uint32_t size = elementBytes(what);
    TUTTI_KEEP_LOOP
    for (uint64_t at = team.index() * size; at < bytes; at += team.size() * size) {
      uint64_t acc = widen(what, loadUnit(m.sources[0] + at, size));
      TUTTI_KEEP_LOOP
      for (uint32_t s = 1; s < m.nSources; ++s) acc = apply(what, acc, widen(what, loadUnit(m.sources[s] + at, size)));
      const uint64_t result = narrow(what, acc);
      TUTTI_KEEP_LOOP
      for (uint32_t d = 0; d < m.nDsts; ++d) storeUnit(m.dsts[d] + at, result, size);
    }
  }

  /// Asks for operands once for each element: they do not go away.
  template <class Operand>
  static TUTTI_HD bool combineUnits(uint32_t n, Operand operand, uint32_t what, uint64_t* unit) {
    const uint32_t bits = elementBytes(what) * 8;
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    uint64_t result = 0;
    TUTTI_KEEP_LOOP
    for (uint32_t shift = 0; shift < 64; shift += bits) {
      uint64_t acc = widen(what, *unit >> shift & mask);
      TUTTI_KEEP_LOOP
      for (uint32_t i = 1; i < n; ++i) {
        uint64_t next = 0;
        if (!operand(i, &next)) return false;
        acc = apply(what, acc, widen(what, next >> shift & mask));
      }
      result |= narrow(what, acc) << shift;
    }
    *unit = result;
    return true;
  }

 private:
  template <class T>
  static TUTTI_HD T as(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <class T>
  static TUTTI_HD uint64_t bits64(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
  }

  static TUTTI_HD uint32_t elementBytes(uint32_t what) {
    switch (what >> 16) {
#define TUTTI_WALK_CASE(F) \
  case kFormat##F: return sizeof(F::Stored);
      TUTTI_WALK_FORMATS(TUTTI_WALK_CASE)
#undef TUTTI_WALK_CASE
    }
    return 1;
  }
  static TUTTI_HD uint64_t widen(uint32_t what, uint64_t stored) {
    switch (what >> 16) {
#define TUTTI_WALK_CASE(F) \
  case kFormat##F: return bits64(F::widen(as<F::Stored>(stored)));
      TUTTI_WALK_FORMATS(TUTTI_WALK_CASE)
#undef TUTTI_WALK_CASE
    }
    return stored;
  }
  static TUTTI_HD uint64_t narrow(uint32_t what, uint64_t value) {
    switch (what >> 16) {
#define TUTTI_WALK_CASE(F) \
  case kFormat##F: return bits64(F::narrow(as<F::Value>(value)));
      TUTTI_WALK_FORMATS(TUTTI_WALK_CASE)
#undef TUTTI_WALK_CASE
    }
    return value;
  }
  static TUTTI_HD uint64_t apply(uint32_t what, uint64_t a, uint64_t b) {
    switch (what & 0xffff) {
#define TUTTI_WALK_CASE(F, Op) \
  case kPair##F##Op: return bits64(Op::combine(as<F::Value>(a), as<F::Value>(b)));
      TUTTI_REDUCE_KERNELS(TUTTI_WALK_CASE)
#undef TUTTI_WALK_CASE
    }
    return a;
  }
};

}  // namespace tutti::kernels

// X(Name, Arithmetic): kernel tutti_walk_Name.
#define TUTTI_FAST_WALK_KERNELS(X) \
  X(Copy, NoArithmetic) X(F32, Reduces<F32, Sum>) X(F16, Reduces<F16, Sum>) X(BF16, Reduces<BF16, Sum>)
#define TUTTI_WALK_KERNELS(X) TUTTI_FAST_WALK_KERNELS(X) X(Any, AnyArithmetic)
