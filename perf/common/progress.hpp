// A line on the terminal that says how far something long is.
//
// Nothing where nobody sees it: stderr is a terminal, or tutti-run says that its own is one (TUTTI_TERMINAL) and then
// gets whole lines, seldom.  Nothing in the first two seconds either.  One thread of one rank.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tutti::perf {

class Progress {
 public:
  /// unit  what there are `total` of: "rows"
  Progress(size_t total, const char* unit) : total_(total), unit_(unit) {
    if (isatty(STDERR_FILENO) == 1) return;
    const char* seen = std::getenv("TUTTI_TERMINAL");
    if (seen != nullptr && std::strcmp(seen, "1") == 0) {
      everyS_ = kLineEveryS;
    } else {
      total_ = 0;
    }
  }
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Before the one numbered `done` (from 0) begins, which is about `what`.
  void show(size_t done, const std::string& what) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (total_ == 0 || seconds < std::max(kSilentS, lastS_ + everyS_)) return;
    lastS_ = seconds;
    const bool line = everyS_ > 0;
    std::fprintf(stderr, "%s%zu of %zu %s, %s; now %s%s", line ? "# " : "\r\033[K", done, total_, unit_,
                 duration(seconds).c_str(), what.c_str(), line ? "\n" : "");
    std::fflush(stderr);
    shown_ = !line;
  }
  /// Before anything else is printed.
  void clear() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
    shown_ = false;
  }

  /// "75 s", "12 min", "3 h 5 min".
  static std::string duration(double seconds) {
    const auto s = static_cast<long long>(seconds + 0.5);
    if (s < 120) return std::to_string(s) + " s";
    if (s < 7200) return std::to_string((s + 30) / 60) + " min";
    return std::to_string(s / 3600) + " h " + std::to_string(s % 3600 / 60) + " min";
  }

 private:
  static constexpr double kSilentS = 2, kLineEveryS = 10;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  size_t total_;  // 0: nobody looks
  const char* unit_;
  double everyS_ = 0, lastS_ = -kLineEveryS;
  bool shown_ = false;
};

}  // namespace tutti::perf
