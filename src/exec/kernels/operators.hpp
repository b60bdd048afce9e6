// The operators, on values as formats.hpp reads them.
#pragma once

#include "src/exec/kernels/team.hpp"

namespace tutti::kernels {

// Integers wrap: 8 and 16 bits are promoted to int, which the cast back cuts; wider ones are unsigned in the lists.
struct Sum {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Prod {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    if constexpr (sizeof(T) == 2) {  // an integer; 65535 * 65535 overflows int
      return static_cast<T>(uint32_t{a} * uint32_t{b});
    } else {
      return static_cast<T>(a * b);
    }
  }
};
struct Max {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return a < b ? a : b;
  }
};
struct Band {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Bor {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Bxor {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Land {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a != T(0) && b != T(0) ? 1 : 0);
  }
};
struct Lor {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    return static_cast<T>(a != T(0) || b != T(0) ? 1 : 0);
  }
};

TUTTI_HD bool negative(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 31 != 0;
}
TUTTI_HD bool negative(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 != 0;
}

/// IEEE 754-2019 maximum and minimum: a NaN wins, and -0 is less than +0, so that no result depends on the order.
struct FloatMax {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return negative(a) ? b : a;
    return a > b ? a : b;
  }
};
struct FloatMin {
  template <class T>
  static TUTTI_HD T combine(T a, T b) {
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return negative(a) ? a : b;
    return a < b ? a : b;
  }
};

}  // namespace tutti::kernels
