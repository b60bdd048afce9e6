// Fuzzes the files of checkpoints: some rank files of bytes that the input says, what is wanted of them, names and
// marks.
//
// Hashes are set right where the input says so, or nothing would get past them.
#include <cstdlib>
#include <cstring>

#include "src/parallel/checkpoint_format.hpp"
#include "src/parallel/fail.hpp"
#include "tests/fuzz/input.hpp"

using namespace tutti::parallel;
using tutti::test::Input;

namespace {

class MemoryFile final : public CheckpointFile {
 public:
  explicit MemoryFile(const std::string& bytes) : bytes_(bytes) {}
  std::string name() const override { return "file"; }
  uint64_t size() const override { return bytes_.size(); }
  void read(void* data, size_t bytes, uint64_t offset) const override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) fail(tuttiSystemError, "file ends too early");
    if (bytes > 0) std::memcpy(data, bytes_.data() + offset, bytes);
  }

 private:
  const std::string& bytes_;
};

/// A piece that is sound but for what the input spoils.
PieceInfo pieceOf(Input* input) {
  PieceInfo piece{.key = input->byte() % 2u, .dtype = input->byte() % 8, .rows = input->byte() % 8};
  piece.columns = input->byte() % 8;
  piece.row1 = piece.rows;
  piece.column0 = input->byte() % 2;
  piece.column1 = piece.columns;
  piece.begin = input->byte() % 2;
  piece.end = piece.rows * (piece.columns - piece.column0);
  input->spoil(&piece);
  return piece;
}

std::string fileOf(Input* input) {
  std::vector<PieceInfo> infos;
  std::vector<std::string> contents;
  for (unsigned n = input->byte() % 4; n > 0; --n) {
    const PieceInfo piece = pieceOf(input);
    const bool sized = isSound(piece) && piece.bytes() < 4096;
    if (!sized) continue;
    infos.push_back(piece);
    contents.emplace_back(piece.bytes(), static_cast<char>(input->byte()));
  }
  std::vector<char*> data;
  for (std::string& content : contents) data.push_back(content.data());
  std::string file = headOf(infos, data);
  const size_t headBytes = file.size();
  for (const std::string& content : contents) file += content;
  const std::string_view over = input->some(255);  // where it does damage
  const size_t at = over.empty() ? 0 : input->value<uint16_t>() % file.size();
  file.replace(at, std::min(over.size(), file.size() - at), over);
  if (input->byte() < 192 && headBytes > 24) {  // the hash of the entries, behind magic and count
    const uint64_t hash = hashOfBytes(file.data() + 24, headBytes - 24);
    std::memcpy(file.data() + 16, &hash, sizeof hash);
  }
  if (input->byte() > 224) file.resize(input->value<uint16_t>() % (file.size() + 1));
  return file;
}

void load(Input* input) {
  std::vector<std::string> files;
  for (unsigned n = 1 + input->byte() % 3; n > 0; --n) files.push_back(fileOf(input));
  std::vector<PieceInfo> want;
  std::vector<std::string> into;
  for (unsigned n = input->byte() % 4; n > 0; --n) {
    const PieceInfo piece = pieceOf(input);
    if (!isSound(piece) || piece.bytes() > 4096) continue;
    want.push_back(piece);
    into.emplace_back(piece.bytes(), '\0');
  }
  std::vector<char*> at;
  for (std::string& one : into) at.push_back(one.data());
  const auto open = [&files](size_t f) { return std::make_unique<MemoryFile>(files.at(f)); };
  loadPieces({files.size(), input->byte(), open}, want, at);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const int64_t step = stepOf(text); step >= 0 && stepName(step) != text) std::abort();
  if (const size_t files = filesInMark(text); files != 0 && markOf(files) != text) std::abort();
  try {
    load(&input);
  } catch (const Failure& failure) {
    if (failure.text.empty()) std::abort();
  }
  return 0;
}
