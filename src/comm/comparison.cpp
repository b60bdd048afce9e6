#include "src/comm/comparison.hpp"

#include <algorithm>
#include <utility>

#include "src/base/assert.hpp"
#include "src/collective/fingerprint.hpp"

namespace tutti {
namespace {

Fingerprint figuresOf(uint32_t number) { return makeFingerprint({.sequence = number, .kind = kKindControl}); }

}  // namespace

Status Comparison::tell(const Call& subject, const std::vector<uint64_t>& figures) {
  TUTTI_ASSERT(!subject_);
  const auto* bytes = reinterpret_cast<const std::byte*>(figures.data());
  TUTTI_ASSIGN(const bool told, links_.board(BoardUse::Figures, kEveryone)
                                    ->send(bytes, figures.size() * sizeof figures[0], figuresOf(++number_)));
  TUTTI_ASSERT(told);  // all have read what was told before the last time
  subject_ = subject;
  nFigures_ = figures.size();
  all_.resize(nFigures_ * links_.descriptors().size());
  std::ranges::copy(figures, all_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rank_) * nFigures_));
  next_ = 0;
  return {};
}

Result<std::optional<std::vector<uint64_t>>> Comparison::hear() {
  const Expect expect{nFigures_ * sizeof all_[0], figuresOf(number_)};
  for (const int nRanks = static_cast<int>(links_.descriptors().size()); next_ < nRanks; ++next_) {
    if (next_ == rank_) continue;
    auto* const to = reinterpret_cast<std::byte*>(all_.data() + static_cast<size_t>(next_) * nFigures_);
    waitingOn_ = next_;
    TUTTI_ASSIGN(const bool came, links_.board(BoardUse::Figures, next_)->receive(to, expect));
    if (!came) return std::optional<std::vector<uint64_t>>();
  }
  waitingOn_ = -1;
  subject_.reset();
  return std::optional(std::move(all_));
}

}  // namespace tutti
