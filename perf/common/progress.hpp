// A line on the terminal that says how far a long sweep is.  Nothing when stderr is not a terminal, and nothing in
// the first two seconds.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace tutti::perf {

class Progress {
 public:
  explicit Progress(size_t rows) : rows_(rows), terminal_(isatty(STDERR_FILENO) == 1) {}

  /// Before row `done` (0-based) begins.
  void show(size_t done, const std::string& what) {
    using namespace std::chrono;
    const double seconds = duration<double>(steady_clock::now() - start_).count();
    if (!terminal_ || seconds < 2) return;
    std::fprintf(stderr, "\r\033[K%zu of %zu rows, %.0f s; now %s", done, rows_, seconds, what.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
  /// Before anything else is printed.
  void clear() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  size_t rows_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace tutti::perf
