// What the ranks of a run share beside their library: a page of a file that the driver makes.
#pragma once

#include <string>

#include "perf/common/placement.hpp"
#include "perf/compare/meeting.hpp"

namespace tutti::compare {

class SharedPage {
 public:
  struct Layout {
    Meeting::Words meeting;
    perf::Placement::Words placement;
  };
  static constexpr size_t kBytes = 4096;
  static_assert(sizeof(Layout) <= kBytes && std::atomic<uint32_t>::is_always_lock_free);

  /// Maps a file of at least kBytes that begins as zeros.  Throws std::runtime_error.
  explicit SharedPage(const std::string& path);
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  Layout* operator->() { return layout_; }

 private:
  Layout* layout_ = nullptr;
};

}  // namespace tutti::compare
