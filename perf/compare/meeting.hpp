// Where the ranks of a run meet before a call that is timed alone: a barrier in a file that all of them map.  It is the
// same for every library, so that what ranks are late by is the same for all.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::compare {

class Meeting {
 public:
  /// Maps `path`, a file of at least kBytes that begins as zeros.  yields: hand the core on while others are awaited.
  /// Throws std::runtime_error.
  Meeting(const std::string& path, int nRanks, bool yields);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Returns when every rank has called it as often as this one.
  void wait();

  static constexpr size_t kBytes = 4096;

 private:
  struct Words;
  Words* words_ = nullptr;
  uint32_t nRanks_;
  bool yields_;
};

}  // namespace tutti::compare
