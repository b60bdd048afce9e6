// Checks of our own invariants: a failure is a mistake of Tutti's, never of the user's or of a peer's.
#pragma once

#include <sstream>
#include <string>

namespace tutti {

[[noreturn]] void assertionFailed(const char* file, int line, const char* text, const std::string& operands);

template <class A, class B>
[[noreturn]] void comparisonFailed(const char* file, int line, const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << a << " and " << b;
  assertionFailed(file, line, text, out.str());
}

}  // namespace tutti

#define TUTTI_ASSERT(condition) ((condition) ? void(0) : ::tutti::assertionFailed(__FILE__, __LINE__, #condition, ""))

/// TUTTI_ASSERT_CMP(a, <=, b) prints both operands when it does not hold.
#define TUTTI_ASSERT_CMP(a, relation, b) \
  (((a)relation(b)) ? void(0) : ::tutti::comparisonFailed(__FILE__, __LINE__, #a " " #relation " " #b, (a), (b)))
