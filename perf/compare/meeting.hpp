// Where the ranks of a run meet before a call that is timed alone: a barrier in memory that all of them map.  It is the
// same for every library, so that what ranks are late by is the same for all.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::compare {

class Meeting {
 public:
  /// In memory that all ranks map, zeros at first.
  struct Words {
    alignas(64) std::atomic<uint32_t> come;
    alignas(64) std::atomic<uint32_t> round;
  };
  /// yields: hand the core on while others are awaited.
  Meeting(Words* words, int nRanks, bool yields)
      : words_(words), nRanks_(static_cast<uint32_t>(nRanks)), yields_(yields) {}

  /// Returns when every rank has called it as often as this one.
  void wait();

 private:
  Words* words_;
  uint32_t nRanks_;
  bool yields_;
};

}  // namespace tutti::compare
