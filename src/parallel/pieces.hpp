// Which elements of a piece lie where in another.
#pragma once

#include <string>
#include <vector>

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"
#include "tutti/parallel/ft.h"

namespace tutti::parallel {

/// A piece without its data, as it travels and as it is written to files.
struct PieceInfo {
  uint64_t key;  // of the name
  int64_t dtype, rows, columns, row0, row1, column0, column1, begin, end;
  int64_t count() const { return end - begin; }
  size_t bytes() const { return static_cast<size_t>(count()) * bytesOf(static_cast<tuttiDataType_t>(dtype)); }
};

/// Throws tuttiInvalidArgument unless the piece is one.
PieceInfo infoOf(const tuttiPiece_t& piece);
std::vector<PieceInfo> infosOf(const tuttiPiece_t* pieces, size_t n);
/// Whether all numbers of a piece from outside fit together.
bool isSound(const PieceInfo& info);

/// `length` elements of piece `piece` of source `source`, from its element `from` on, to element `to` of what is
/// wanted.
struct Move {
  size_t source, piece, want;
  int64_t from, to, length;
};

/// Where to take what is wanted from; sources are tried from `first` on.  Throws tuttiInvalidUsage if an element is
/// nowhere, with `who` and the tensor's number.
std::vector<Move> movesFor(const std::vector<PieceInfo>& want, const std::vector<std::vector<PieceInfo>>& sources,
                           size_t first, const std::string& who);

/// What pieces hold, for the host to read and write: their own memory, or a copy of a device's.
class PieceData {
 public:
  /// read: the copies begin as what the pieces hold; else anything.
  PieceData(Device& device, const tuttiPiece_t* pieces, const std::vector<PieceInfo>& infos, bool read);
  char* at(size_t piece) const { return at_[piece]; }
  const std::vector<char*>& all() const { return at_; }
  /// Copies go to the pieces.
  void putBack();

 private:
  Device& device_;
  const tuttiPiece_t* pieces_;
  const std::vector<PieceInfo>& infos_;
  std::vector<std::vector<char>> copies_;
  std::vector<char*> at_;
};

/// All ranks' lists.  Collective.
std::vector<std::vector<PieceInfo>> gatherInfos(Group& group, const std::vector<PieceInfo>& mine);

/// Throws on all ranks if `complaint` is not "" on one: there its own sentence, elsewhere who it was.  Collective.
void agreeOrFail(Group& group, tuttiResult_t code, const std::string& complaint);

uint64_t hashOfBytes(const void* data, size_t bytes);

}  // namespace tutti::parallel
