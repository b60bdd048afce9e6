// Spans of pages within one arena: which are in use, which are free, and which of these still have their pages.
//
// A span is described at its first page and at its last, so that neighbours are found from both sides.  Free spans are
// in bins by their size; those that have been in use and still have pages ("kept") are also in a line by age, and are
// taken first.  Nothing here allocates or locks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::spans {

inline constexpr size_t kPageBytes = 4096;

enum class State : uint8_t { None, Used, Kept, Clean };  // Clean: all zeros, and without pages

struct PageInfo {
  uint32_t pagesFromHere;   // of the span that begins here
  uint32_t pagesToHere;     // of the span that ends here
  uint32_t next, previous;  // in its bin
  uint32_t newer, older;    // in the line of kept spans
  State state;
};

class Spans {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// One clean span.  info: zeroed, one for each page; borrowed.
  void begin(PageInfo* info, uint32_t pages);

  /// `pages` at an index of a multiple of `alignment` (pages, a power of two), of the kept or of the clean ones; kNone.
  uint32_t take(uint32_t pages, uint32_t alignment, State from);
  /// Gives the span that begins at `at`, which is in use, to the kept ones.
  void give(uint32_t at);
  /// Make the span in use at `at` longer or shorter.  False: what follows is not free, or not enough.
  bool resize(uint32_t at, uint32_t pages);
  /// The kept span that was given first; kNone.
  uint32_t oldestKept() const { return oldest_; }
  /// A kept span has lost its pages.
  void clean(uint32_t at);

  /// Pages of the span in use that begins at `at`; 0 if there is none.
  uint32_t usedAt(uint32_t at) const { return info_[at].state == State::Used ? info_[at].pagesFromHere : 0; }
  uint32_t pagesAt(uint32_t at) const { return info_[at].pagesFromHere; }
  uint32_t keptPages() const { return keptPages_; }
  bool empty() const { return used_ == 0; }

 private:
  static constexpr uint32_t kBins = 4 * 32;
  static constexpr uint32_t kMostLooks = 32;  // in the bin of the wanted size, whose spans may be too short
  static uint32_t binOf(uint32_t pages);
  static bool fits(uint32_t at, uint32_t has, uint32_t pages, uint32_t alignment);
  uint32_t find(uint32_t pages, uint32_t alignment, State from) const;
  void describe(uint32_t at, uint32_t pages, State state);
  void forget(uint32_t at);
  void insert(uint32_t at, uint32_t pages, State state);
  void remove(uint32_t at);
  uint32_t& binHead(uint32_t pages, State state) { return (state == State::Kept ? kept_ : clean_)[binOf(pages)]; }

  // Without initializers, so that arrays of these are no part of the library's file.
  PageInfo* info_;
  uint32_t pages_;
  uint32_t kept_[kBins], clean_[kBins];
  uint32_t oldest_, newest_;
  uint32_t keptPages_;
  uint32_t used_;
};

}  // namespace tutti::spans
