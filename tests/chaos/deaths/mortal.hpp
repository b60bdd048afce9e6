// A rank that dies at a chosen point: with the k-th system call by which the library talks to other processes, or after
// a time.  The calls are this program's own functions of the same names, which the library's reach first.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::test {

enum class Death : uint8_t { Kill, Exit, Fault };
const char* nameOf(Death death);

struct Fate {
  Death death = Death::Kill;
  int calls = 0;    // with which call since arm(); 0: by time
  int afterUs = 0;  // from arm() on
};

/// Of one clock for all processes.
int64_t nowUs();

/// This process dies so from now on; once.  died: gets the time, and sent how many messages it has sent till then, both
/// in memory that survives it.
void arm(const Fate& fate, std::atomic<int64_t>& died, std::atomic<int>& sent);

}  // namespace tutti::test
