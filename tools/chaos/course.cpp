#include "tools/chaos/course.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/split_mix.hpp"
#include "src/base/text.hpp"

namespace tutti::chaos {
namespace {

constexpr uint64_t kPieceBytes = 16384;
constexpr int64_t kGatherNs = 20 * kMs;
constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();

int64_t toNs(double ms) { return static_cast<int64_t>(ms * 1e6); }

}  // namespace

std::string Misdeeds::text() const {
  std::string all;
  const auto add = [&](bool on, const std::string& what) {
    if (on) all += cat(all.empty() ? "" : ", ", what);
  };
  add(delayMs > 0 || jitterMs > 0, cat("delay ", delayMs, " to ", delayMs + jitterMs, " ms"));
  add(splitBytes > 0, cat("pieces of up to ", splitBytes, " bytes"));
  add(coalesceBytes > 0, cat("together by ", coalesceBytes, " bytes"));
  add(bandwidth > 0, cat(bandwidth, " bytes a second"));
  add(stallEvery > 0, cat("a stall of ", stallMs, " ms every ", stallEvery, " bytes"));
  add(flipEvery > 0, cat("a flipped bit every ", flipEvery, " bytes"));
  add(closeEvery > 0, cat("a half-close every ", closeEvery, " bytes"));
  add(resetEvery > 0, cat("a reset every ", resetEvery, " bytes"));
  return all.empty() ? "nothing" : all;
}

std::string Deed::text() const {
  switch (kind) {
    case DeedKind::Stall: return cat("byte ", position, ": stalls");
    case DeedKind::Flip: return cat("byte ", position, ": bit ", bit, " flipped");
    case DeedKind::Close: return cat("byte ", position, ": closed in this direction");
    case DeedKind::Reset: return cat("byte ", position, ": reset");
  }
  return "?";
}

uint64_t Dice::next() { return nextSplitMix(&state_); }

void Course::Mark::move(uint64_t from) { position = mean == 0 ? kNowhere : from + dice.upTo(2 * mean - 1); }

/// Each kind has dice of its own, so that to ask for one more leaves the others where they were.
uint64_t Course::seedOf(uint64_t what) const {
  Dice dice(misdeeds_.seed);
  for (const uint64_t part : {connection_, static_cast<uint64_t>(direction_), what}) dice = Dice(dice.next() ^ part);
  return dice.next();
}

Course::Mark Course::mark(DeedKind kind, size_t mean) const {
  Mark made{Dice(seedOf(16 + static_cast<uint64_t>(kind))), mean, 0};
  made.move(0);
  return made;
}

Course::Course(const Misdeeds& misdeeds, uint64_t connection, int direction)
    : misdeeds_(misdeeds),
      connection_(connection),
      direction_(direction),
      sizes_(seedOf(0)),
      delays_(seedOf(1)),
      bits_(seedOf(2)),
      stalls_(mark(DeedKind::Stall, misdeeds.stallEvery)),
      flips_(mark(DeedKind::Flip, misdeeds.flipEvery)),
      closes_(mark(DeedKind::Close, misdeeds.closeEvery)),
      resets_(mark(DeedKind::Reset, misdeeds.resetEvery)) {}

void Course::behave() {
  for (Mark* one : {&flips_, &closes_, &resets_}) {
    one->mean = 0;
    one->move(0);
  }
}

void Course::beginPiece() {
  if (misdeeds_.coalesceBytes > 0) {
    boundary_ = position_ + misdeeds_.coalesceBytes;
  } else {
    boundary_ = position_ + (misdeeds_.splitBytes > 0 ? sizes_.upTo(misdeeds_.splitBytes) : kPieceBytes);
  }
  constexpr uint64_t kSteps = 1'000'000;
  const double part = static_cast<double>(delays_.next() % (kSteps + 1)) / kSteps;
  pieceDelayNs_ = toNs(misdeeds_.delayMs + misdeeds_.jitterMs * part);
}

void Course::put(std::span<const std::byte> bytes, int64_t nowNs) {
  while (!bytes.empty()) {
    deeds(nowNs);
    if (end_ != End::Open) return;  // nobody will read it
    if (position_ == boundary_) beginPiece();
    const uint64_t n = std::min({static_cast<uint64_t>(bytes.size()), boundary_ - position_, stalls_.left(position_),
                                 closes_.left(position_), resets_.left(position_)});
    append(bytes.first(n), nowNs);
    bytes = bytes.subspan(n);
  }
  deeds(nowNs);
}

/// What is done in front of the next byte.
void Course::deeds(int64_t nowNs) {
  if (end_ != End::Open) return;
  if (stalls_.at(position_)) {
    deeds_.push_back({DeedKind::Stall, position_});
    lastDueNs_ = std::max(lastDueNs_, nowNs) + toNs(misdeeds_.stallMs);
    stalls_.move(position_);
  }
  for (const auto& [mark, kind, how] :
       {std::tuple(&closes_, DeedKind::Close, End::Closed), std::tuple(&resets_, DeedKind::Reset, End::Reset)}) {
    if (!mark->at(position_) || end_ != End::Open) continue;
    deeds_.push_back({kind, position_});
    end_ = how;
    endNs_ = std::max(lastDueNs_, nowNs);
  }
}

void Course::append(std::span<const std::byte> bytes, int64_t nowNs) {
  const bool gathers = misdeeds_.coalesceBytes > 0;
  const bool joins = gathers && !pieces_.empty() && pieces_.back().boundary == boundary_ &&
                     (pieces_.size() > 1 || done_ == 0) && pieces_.back().dueNs > nowNs;
  const bool whole = position_ + bytes.size() == boundary_;
  int64_t dueNs = nowNs + pieceDelayNs_ + (gathers && !whole ? kGatherNs : 0);
  if (joins && !whole) dueNs = pieces_.back().dueNs;
  if (misdeeds_.bandwidth > 0) {
    const double seconds = static_cast<double>(bytes.size()) / static_cast<double>(misdeeds_.bandwidth);
    dueNs = std::max(dueNs, std::max(lastDueNs_, nowNs) + toNs(seconds * 1e3));
  }
  if (!joins) pieces_.push_back({{}, boundary_, 0});
  Piece& piece = pieces_.back();
  // A group that is whole may leave sooner than was said when it began, never before those in front of it.
  const int64_t before = pieces_.size() > 1 ? pieces_[pieces_.size() - 2].dueNs : 0;
  piece.dueNs = joins ? std::max(dueNs, before) : std::max(dueNs, lastDueNs_);
  lastDueNs_ = piece.dueNs;
  const size_t from = piece.bytes.size();
  piece.bytes.insert(piece.bytes.end(), bytes.begin(), bytes.end());
  flip(std::span(piece.bytes).subspan(from));
  position_ += bytes.size();
  held_ += bytes.size();
}

void Course::flip(std::span<std::byte> bytes) {
  while (flips_.position < position_ + bytes.size()) {
    const int bit = static_cast<int>(bits_.next() % 8);
    bytes[flips_.position - position_] ^= std::byte{1} << bit;
    deeds_.push_back({DeedKind::Flip, flips_.position, bit});
    flips_.move(flips_.position);
  }
}

void Course::finish(int64_t nowNs) {
  if (end_ != End::Open) return;
  end_ = End::Closed;
  endNs_ = std::max(lastDueNs_, nowNs);
}

std::span<const std::byte> Course::due(int64_t nowNs) const {
  if (pieces_.empty() || pieces_.front().dueNs > nowNs) return {};
  return std::span(pieces_.front().bytes).subspan(done_);
}

void Course::taken(size_t bytes) {
  held_ -= bytes;
  done_ += bytes;
  if (done_ < pieces_.front().bytes.size()) return;
  pieces_.pop_front();
  done_ = 0;
}

Course::End Course::end(int64_t nowNs) const {
  if (end_ == End::Open || !pieces_.empty() || nowNs < endNs_) return End::Open;
  return end_;
}

int64_t Course::nextNs(int64_t nowNs) const {
  const int64_t next = pieces_.empty() ? endNs_ : pieces_.front().dueNs;
  return next <= nowNs ? kNever : next;
}

std::vector<Deed> Course::takeDeeds() { return std::exchange(deeds_, {}); }

}  // namespace tutti::chaos
