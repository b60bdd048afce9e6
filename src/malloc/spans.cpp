#include "src/malloc/spans.hpp"

#include <bit>

namespace tutti::spans {

void Spans::begin(PageInfo* info, uint32_t pages) {
  info_ = info;
  pages_ = pages;
  for (uint32_t i = 0; i < kBins; ++i) kept_[i] = clean_[i] = kNone;
  oldest_ = newest_ = kNone;
  keptPages_ = used_ = 0;
  insert(0, pages, State::Clean);
}

/// Four bins for each power of two: a span of a larger bin is long enough for all sizes of a smaller one.
uint32_t Spans::binOf(uint32_t pages) {
  const auto power = static_cast<uint32_t>(std::bit_width(pages)) - 1;
  const uint32_t quarter = power < 2 ? 0 : (pages >> (power - 2)) & 3;
  return 4 * power + quarter;
}

bool Spans::fits(uint32_t at, uint32_t has, uint32_t pages, uint32_t alignment) {
  const uint32_t lead = (alignment - at % alignment) % alignment;
  return has >= lead && has - lead >= pages;
}

uint32_t Spans::find(uint32_t pages, uint32_t alignment, State from) const {
  const uint32_t* const bins = from == State::Kept ? kept_ : clean_;
  for (uint32_t bin = binOf(pages); bin < kBins; ++bin) {
    uint32_t looks = 0;
    for (uint32_t at = bins[bin]; at != kNone && looks < kMostLooks; at = info_[at].next, ++looks)
      if (fits(at, info_[at].pagesFromHere, pages, alignment)) return at;
  }
  return kNone;
}

void Spans::describe(uint32_t at, uint32_t pages, State state) {
  PageInfo &first = info_[at], &last = info_[at + pages - 1];
  first.pagesFromHere = last.pagesToHere = pages;
  first.state = last.state = state;
}

void Spans::forget(uint32_t at) {
  PageInfo &first = info_[at], &last = info_[at + first.pagesFromHere - 1];
  last.state = State::None;
  last.pagesToHere = 0;
  first.state = State::None;
  first.pagesFromHere = 0;
}

/// A free span, with the free neighbours of its kind.
void Spans::insert(uint32_t at, uint32_t pages, State state) {
  if (at > 0 && info_[at - 1].state == state) {
    const uint32_t before = info_[at - 1].pagesToHere;
    at -= before;
    pages += before;
    remove(at);
  }
  if (at + pages < pages_ && info_[at + pages].state == state) {
    const uint32_t behind = at + pages;
    pages += info_[behind].pagesFromHere;
    remove(behind);
  }
  describe(at, pages, state);
  uint32_t& head = binHead(pages, state);
  PageInfo& span = info_[at];
  span.next = head;
  span.previous = kNone;
  if (head != kNone) info_[head].previous = at;
  head = at;
  if (state != State::Kept) return;
  keptPages_ += pages;
  span.older = newest_;
  span.newer = kNone;
  (newest_ == kNone ? oldest_ : info_[newest_].newer) = at;
  newest_ = at;
}

void Spans::remove(uint32_t at) {
  const PageInfo span = info_[at];
  (span.previous == kNone ? binHead(span.pagesFromHere, span.state) : info_[span.previous].next) = span.next;
  if (span.next != kNone) info_[span.next].previous = span.previous;
  if (span.state == State::Kept) {
    keptPages_ -= span.pagesFromHere;
    (span.older == kNone ? oldest_ : info_[span.older].newer) = span.newer;
    (span.newer == kNone ? newest_ : info_[span.newer].older) = span.older;
  }
  forget(at);
}

uint32_t Spans::take(uint32_t pages, uint32_t alignment, State from) {
  const uint32_t at = find(pages, alignment, from);
  if (at == kNone) return kNone;
  const uint32_t has = info_[at].pagesFromHere, lead = (alignment - at % alignment) % alignment;
  remove(at);
  if (lead != 0) insert(at, lead, from);
  describe(at + lead, pages, State::Used);
  if (has > lead + pages) insert(at + lead + pages, has - lead - pages, from);
  ++used_;
  return at + lead;
}

void Spans::give(uint32_t at) {
  const uint32_t pages = info_[at].pagesFromHere;
  forget(at);
  --used_;
  insert(at, pages, State::Kept);
}

bool Spans::resize(uint32_t at, uint32_t pages) {
  const uint32_t has = info_[at].pagesFromHere, behind = at + has;
  if (pages > has) {
    const bool isFree = behind < pages_ && (info_[behind].state == State::Kept || info_[behind].state == State::Clean);
    if (!isFree || info_[behind].pagesFromHere < pages - has) return false;
    const uint32_t more = info_[behind].pagesFromHere;
    const State state = info_[behind].state;
    remove(behind);
    forget(at);
    describe(at, pages, State::Used);
    if (has + more > pages) insert(at + pages, has + more - pages, state);
  } else if (pages < has) {
    forget(at);
    describe(at, pages, State::Used);
    insert(at + pages, has - pages, State::Kept);
  }
  return true;
}

void Spans::clean(uint32_t at) {
  const uint32_t pages = info_[at].pagesFromHere;
  remove(at);
  insert(at, pages, State::Clean);
}

}  // namespace tutti::spans
