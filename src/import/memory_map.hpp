// Where the chunks of a foreign plan are in our schedules, and every chunk by number ("cell").
//
// Thread block groups divide a step's chunks among them, so all chunks are cut into `refine` pieces, the least number
// that gives every thread block whole pieces.  A collective on blocks becomes a schedule with a channel for each piece
// of a block, since such a schedule knows blocks only as wholes, and channels work on parts of their bytes.
#pragma once

#include <vector>

#include "src/import/program.hpp"

namespace tutti::foreign {

class MemoryMap {
 public:
  /// The program must outlive it.  Errors: what the limits do not allow.
  static Result<MemoryMap> make(const Program& program, bool inPlace);

  /// The schedule of a rank, still without lanes.
  const Schedule& shape(int rank) const { return shapes_[static_cast<size_t>(rank)]; }
  int refine() const { return refine_; }
  /// Pieces of a block that are channels of the schedule; 1 for collectives on one vector.
  int nParts() const { return nParts_; }
  size_t nCells() const { return nCells_; }

  /// Piece `piece` behind the beginning of the place.  Cells that are the same memory in place are one.
  /// The place must be in range.
  size_t cell(const Place& place, int piece) const;
  /// Of a cell of Input or Output.
  Chunk chunkOf(size_t cell) const { return chunks_[cell].chunk; }
  int partOf(size_t cell) const { return chunks_[cell].part; }  // -1: scratch
  bool isScratch(size_t cell) const { return chunks_[cell].part < 0; }

  /// Not so for the caller's input, unless it is the output too.
  bool writable(int rank, size_t cell) const;

  /// "" or why chunks [index, index + count) are not in the rank's buffer.
  std::string outOfRange(const Place& place, int count) const;
  /// "i[3]", with the plan's own numbers.
  std::string describe(const Place& place, int piece) const;

 private:
  struct Known {
    Chunk chunk;
    int part;
  };
  explicit MemoryMap(const Program& program) : program_(&program) {}
  int chunksOf(int rank, Buffer buffer) const;

  const Program* program_;
  int refine_ = 1;
  int nParts_ = 1;
  size_t nCells_ = 0;
  std::vector<Schedule> shapes_;
  std::vector<size_t> first_;  // [rank * 3 + buffer]: its first cell
  std::vector<Known> chunks_;  // by cell
};

}  // namespace tutti::foreign
