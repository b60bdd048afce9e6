// Random calls of Spans beside a model that holds the owner of every page.
#include "src/malloc/spans.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

using namespace tutti::spans;

namespace {

constexpr uint32_t kPages = 700;

class Model {
 public:
  Model() : info_(kPages), owner_(kPages, 0), kept_(kPages, false) { spans_.begin(info_.data(), kPages); }

  void take(uint32_t pages, uint32_t alignment, State from) {
    const uint32_t at = spans_.take(pages, alignment, from);
    if (at == Spans::kNone) {
      CHECK_FALSE(hasRoom(pages, alignment, from));
      return;
    }
    CHECK(at % alignment == 0);
    REQUIRE(at + pages <= kPages);
    for (uint32_t i = at; i < at + pages; ++i) {
      REQUIRE(owner_[i] == 0);
      REQUIRE(kept_[i] == (from == State::Kept));
      kept_[i] = false;
    }
    std::fill_n(owner_.begin() + at, pages, ++next_);
    used_[at] = pages;
  }
  void give(uint32_t at) {
    spans_.give(at);
    for (uint32_t i = at; i < at + used_[at]; ++i) {
      owner_[i] = 0;
      kept_[i] = true;
    }
    used_.erase(at);
  }
  void resize(uint32_t at, uint32_t pages) {
    const uint32_t has = used_[at];
    if (!spans_.resize(at, pages)) {
      CHECK(pages > has);
      return;
    }
    for (uint32_t i = at + has; i < at + pages; ++i) {
      REQUIRE(i < kPages);
      REQUIRE(owner_[i] == 0);
      owner_[i] = owner_[at];
      kept_[i] = false;
    }
    for (uint32_t i = at + pages; i < at + has; ++i) {
      owner_[i] = 0;
      kept_[i] = true;
    }
    used_[at] = pages;
  }
  void cleanOldest() {
    const uint32_t at = spans_.oldestKept();
    if (at == Spans::kNone) {
      CHECK(std::count(kept_.begin(), kept_.end(), true) == 0);
      return;
    }
    const uint32_t pages = spans_.pagesAt(at);
    for (uint32_t i = at; i < at + pages; ++i) {
      REQUIRE(kept_[i]);
      kept_[i] = false;
    }
    spans_.clean(at);
  }
  uint32_t anyUsed(std::mt19937& random) const {
    return std::next(used_.begin(), static_cast<long>(random() % used_.size()))->first;
  }
  bool isUsed() const { return !used_.empty(); }
  void check() const {
    CHECK(spans_.empty() == used_.empty());
    CHECK(spans_.keptPages() == std::count(kept_.begin(), kept_.end(), true));
    for (const auto& [at, pages] : used_) REQUIRE(spans_.usedAt(at) == pages);
    for (uint32_t i = 0; i < kPages; ++i)
      if (!used_.contains(i)) REQUIRE(spans_.usedAt(i) == 0);
  }

 private:
  // A row of free pages of that kind, of twice what is needed: a bin is not searched to its end.
  bool hasRoom(uint32_t pages, uint32_t alignment, State from) const {
    uint32_t row = 0;
    for (uint32_t i = 0; i < kPages; ++i) {
      row = owner_[i] == 0 && kept_[i] == (from == State::Kept) ? row + 1 : 0;
      if (row >= 2 * (pages + alignment)) return true;
    }
    return false;
  }
  std::vector<PageInfo> info_;
  Spans spans_;
  std::vector<int> owner_;
  std::vector<bool> kept_;
  std::map<uint32_t, uint32_t> used_;
  int next_ = 0;
};

}  // namespace

TEST_CASE("spans never overlap, find their neighbours, and are found while there is room") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  Model model;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const uint32_t pages = 1 + static_cast<uint32_t>(random()) % (random() % 8 == 0 ? 300 : 20);
    switch (random() % 8) {
      case 0:
      case 1: model.take(pages, 1, State::Clean); break;
      case 2: model.take(pages, 1, State::Kept); break;
      case 3: model.take(pages, 1u << random() % 6, State::Clean); break;
      case 4: model.cleanOldest(); break;
      case 5:
        if (model.isUsed()) model.resize(model.anyUsed(random), pages);
        break;
      default:
        if (model.isUsed()) model.give(model.anyUsed(random));
    }
    if (i % 20 == 0) model.check();
  }
  while (model.isUsed()) model.give(model.anyUsed(random));
  model.check();
  for (int i = 0; i < 1000; ++i) model.cleanOldest();
  model.take(kPages, 1, State::Clean);  // all of it is one again
  model.check();
}
