// The format of checkpoint files, apart from where their bytes are: checkpoint.cpp has them on disk.
//
// A file has a head, an entry for each piece, and the pieces' bytes.  Nothing in a file is believed before it has been
// checked: a disk may be full or broken, and a folder somebody else's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/parallel/pieces.hpp"

namespace tutti::parallel {

/// A file of a checkpoint, to be read.
class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;
  /// For messages.
  virtual std::string name() const = 0;
  virtual uint64_t size() const = 0;
  /// Throws tuttiSystemError if the file has no such bytes.
  virtual void read(void* data, size_t bytes, uint64_t offset) const = 0;
};

/// The files of a step.
struct CheckpointFiles {
  size_t count;  // 1 or more
  size_t first;  // the one to look into first; any number
  std::function<std::unique_ptr<CheckpointFile>(size_t file)> open;
};

/// The head of a file with these pieces, whose bytes follow it one after another.
std::string headOf(const std::vector<PieceInfo>& infos, const std::vector<char*>& data);
/// Fills what is wanted.  Throws tuttiSystemError: a file is none or is damaged; as movesFor().
void loadPieces(const CheckpointFiles& files, const std::vector<PieceInfo>& want, const std::vector<char*>& into);

/// "step-000000000042"
std::string stepName(int64_t step);
/// -1: no step has this name, which may be one that somebody has put aside ("step-000000000042-old").
int64_t stepOf(const std::string& name);

/// The text of the mark of a step of so many files.
std::string markOf(size_t files);
/// 0: this is no mark.
size_t filesInMark(const std::string& text);

}  // namespace tutti::parallel
