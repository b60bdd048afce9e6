#pragma once

#include <cstddef>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// Chunks of a rank by number, memory shared in place having one number: Input, then Output, then scratch.
class ChunkNumbers {
 public:
  explicit ChunkNumbers(const Schedule& schedule)
      : schedule_(schedule), inputs_(schedule.inputChunks()), outputs_(schedule.outputChunks()) {}
  size_t of(Chunk chunk) const {
    const Chunk c = schedule_.memoryOf(chunk);
    const int before = c.buffer == Buffer::Input ? 0 : c.buffer == Buffer::Output ? inputs_ : inputs_ + outputs_;
    return static_cast<size_t>(before + c.index);
  }
  size_t size() const { return static_cast<size_t>(inputs_ + outputs_ + schedule_.nScratch); }

 private:
  const Schedule& schedule_;
  const int inputs_;
  const int outputs_;
};

}  // namespace tutti
