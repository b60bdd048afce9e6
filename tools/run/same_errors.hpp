// One error per job: where ranks say the same of an error, the first says it and the others are named.
//
// Only lines with one of Tutti's codes ([TUTTI-5201]) count, and only if they are the same byte for byte, apart from a
// rank's "(rank 2 of 8)" of itself.  Everything else passes at once, as the first of such lines does, and as a line
// does that a rank says again.  The names of the others follow after kSettleMs, so that one line names them all.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::run {

class SameErrors {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSettleMs{100};

  explicit SameErrors(int nRanks) : nRanks_(nRanks) {}
  /// Whether another rank has said this line, so that it is not to be printed.
  bool repeats(int rank, std::string_view line, Clock::time_point now);
  /// When summaries() has something to say; never where nothing waits.
  std::optional<Clock::time_point> due() const;
  /// Lines that name the ranks whose words were not printed: those that are due, or all of them.
  std::string summaries(Clock::time_point now, bool all);

 private:
  struct Said {
    std::string line, code;
    int first;                 // who said it first, and was printed
    std::vector<bool> by;      // ranks that have said it
    std::vector<int> unnamed;  // ranks that have said it and were not printed
    Clock::time_point since;   // when the first of them did
  };
  std::string summary(Said* said) const;

  int nRanks_;
  std::vector<Said> said_;  // the newest kMostKept
};

/// "1", "1 and 2", "1 to 3 and 7": `ranks` rise.
std::string listedRanks(const std::vector<int>& ranks);

}  // namespace tutti::run
