// Where the parts of partial results lie while make_reproducible.cpp rewrites one lane of one rank.
//
// A part is the value of one subtree of the reduction tree.  It lies in a place (a chunk of the rewritten schedule)
// that is never overwritten while anybody refers to the part: the logical chunk that holds it, a message that still has
// to be sent, the op in hand.  So copying a logical chunk moves no bytes, and a place is reused when its last reference
// goes.
#pragma once

#include <utility>
#include <vector>

#include "src/schedule/chunk_numbers.hpp"
#include "src/schedule/reduction_tree.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

struct TreePart {
  RankInterval ranks;
  int place = -1;
};
using TreeParts = std::vector<TreePart>;  // of one value, by rank

class PartStore {
 public:
  /// New scratch chunks are numbered on from *nScratch.
  PartStore(const Schedule& schedule, int* nScratch) : number_(schedule), nScratch_(nScratch) {
    const auto add = [&](Chunk chunk) {
      if (number_.of(chunk) >= placeOf_.size()) placeOf_.resize(number_.of(chunk) + 1, -1);
      int& place = placeOf_[number_.of(chunk)];
      if (place >= 0) return;
      place = static_cast<int>(places_.size());
      places_.push_back({schedule.memoryOf(chunk), 0});
    };
    for (int c = 0; c < schedule.inputChunks(); ++c) add(in(c));
    for (int c = 0; c < schedule.outputChunks(); ++c) add(out(c));
    held_.resize(number_.size());
    for (int c = 0; c < schedule.inputChunks(); ++c) {
      const size_t n = number_.of(in(c));
      held_[n] = {{{schedule.rank, schedule.rank + 1}, placeOf_[n]}};
      refer(placeOf_[n]);
    }
  }

  void refer(int place) { ++at(place).references; }
  void release(int place) {
    if (--at(place).references == 0 && chunkAt(place).buffer == Buffer::Scratch) freeScratch_.push_back(place);
  }
  void release(const TreeParts& parts) {
    for (const TreePart& part : parts) release(part.place);
  }
  Chunk chunkAt(int place) const { return places_[static_cast<size_t>(place)].chunk; }

  /// A free place, referred to once: the memory of the logical chunk `wanted` if it is Output and free, else scratch.
  int acquire(Chunk wanted, bool wantedIsOutput) {
    if (wantedIsOutput) {
      const int place = placeOf_[number_.of(wanted)];
      if (at(place).references == 0) {
        refer(place);
        return place;
      }
    }
    if (freeScratch_.empty()) {
      places_.push_back({scratch((*nScratch_)++), 1});
      return static_cast<int>(places_.size()) - 1;
    }
    const int place = freeScratch_.back();
    freeScratch_.pop_back();
    refer(place);
    return place;
  }

  /// The value of a logical chunk.  take() moves the references to the caller, share() gives it further ones.
  TreeParts take(Chunk logical) { return std::exchange(held_[number_.of(logical)], {}); }
  TreeParts share(Chunk logical) {
    for (const TreePart& part : held_[number_.of(logical)]) refer(part.place);
    return held_[number_.of(logical)];
  }
  void hold(Chunk logical, TreeParts parts) { held_[number_.of(logical)] = std::move(parts); }

  int placeOf(Chunk user) const { return placeOf_[number_.of(user)]; }
  bool isFree(int place) { return at(place).references == 0; }

  /// Make everything that refers to `from` refer to `to`, which nobody refers to but the caller, once.
  void move(int from, int to) {
    for (TreeParts& parts : held_) {
      for (TreePart& part : parts) {
        if (part.place == from) part.place = to;
      }
    }
    at(to).references = std::exchange(at(from).references, 0);
  }

 private:
  struct Place {
    Chunk chunk;
    int references;
  };
  Place& at(int place) { return places_[static_cast<size_t>(place)]; }

  const ChunkNumbers number_;
  int* nScratch_;
  std::vector<Place> places_;
  std::vector<int> placeOf_;     // [chunk number], of Input and Output
  std::vector<TreeParts> held_;  // [chunk number]
  std::vector<int> freeScratch_;
};

}  // namespace tutti
