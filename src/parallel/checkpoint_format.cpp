#include "src/parallel/checkpoint_format.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace tutti::parallel {
namespace {

constexpr uint64_t kMagic = 0x31306b6369747475;  // "uttick01"
constexpr uint64_t kMostPieces = uint64_t{1} << 24;
constexpr size_t kMostFiles = size_t{1} << 24;
constexpr std::string_view kStep = "step-";

struct FileHead {
  uint64_t magic, pieces, headHash;  // of the entries
};
struct Entry {
  PieceInfo info;
  uint64_t offset, hash;
};

std::vector<Entry> readEntries(const CheckpointFile& file) {
  FileHead head{};
  file.read(&head, sizeof(head), 0);
  const uint64_t size = file.size();
  if (head.magic != kMagic || head.pieces > kMostPieces || head.pieces > size / sizeof(Entry)) {
    fail(tuttiSystemError, file.name(), " is no checkpoint");
  }
  std::vector<Entry> entries(head.pieces);
  file.read(entries.data(), entries.size() * sizeof(Entry), sizeof(head));
  bool sound = hashOfBytes(entries.data(), entries.size() * sizeof(Entry)) == head.headHash;
  for (const Entry& e : entries) {
    sound = sound && isSound(e.info) && e.offset <= size && e.info.bytes() <= size - e.offset;
  }
  if (!sound) fail(tuttiSystemError, file.name(), " is not as it was written");
  return entries;
}

std::vector<PieceInfo> infosOf(const std::vector<Entry>& entries) {
  std::vector<PieceInfo> infos;
  for (const Entry& e : entries) infos.push_back(e.info);
  return infos;
}

}  // namespace

std::string headOf(const std::vector<PieceInfo>& infos, const std::vector<char*>& data) {
  std::vector<Entry> entries;
  uint64_t offset = sizeof(FileHead) + infos.size() * sizeof(Entry);
  for (size_t i = 0; i < infos.size(); ++i) {
    entries.push_back({infos[i], offset, hashOfBytes(data[i], infos[i].bytes())});
    offset += infos[i].bytes();
  }
  const size_t bytes = entries.size() * sizeof(Entry);
  const FileHead head{kMagic, entries.size(), hashOfBytes(entries.data(), bytes)};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  if (bytes > 0) text.append(reinterpret_cast<const char*>(entries.data()), bytes);
  return text;
}

// A piece that several moves are taken from is read and checked once.
void loadPieces(const CheckpointFiles& files, const std::vector<PieceInfo>& want, const std::vector<char*>& into) {
  std::vector<std::vector<PieceInfo>> sources;
  std::vector<std::vector<Entry>> entries;
  for (size_t f = 0; f < files.count; ++f) {
    entries.push_back(readEntries(*files.open(f)));
    sources.push_back(infosOf(entries.back()));
  }
  std::vector<Move> moves = movesFor(want, sources, files.first % files.count, "this rank");
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.source != b.source ? a.source < b.source : a.piece < b.piece;
  });
  std::vector<char> data;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move& m = moves[i];
    const Entry& e = entries[m.source][m.piece];
    if (i == 0 || moves[i - 1].source != m.source || moves[i - 1].piece != m.piece) {
      data.resize(e.info.bytes());
      const auto file = files.open(m.source);
      file->read(data.data(), data.size(), e.offset);
      if (hashOfBytes(data.data(), data.size()) != e.hash) {
        fail(tuttiSystemError, file->name(), " is not as it was written");
      }
    }
    const size_t one = bytesOf(static_cast<tuttiDataType_t>(e.info.dtype));
    std::memcpy(into[m.want] + static_cast<size_t>(m.to) * one, data.data() + static_cast<size_t>(m.from) * one,
                static_cast<size_t>(m.length) * one);
  }
}

std::string stepName(int64_t step) {
  std::string digits = std::to_string(step);
  return std::string(kStep) + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits;
}

int64_t stepOf(const std::string& name) {
  int64_t step = -1;
  if (name.starts_with(kStep)) std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  return step >= 0 && name == stepName(step) ? step : -1;
}

std::string markOf(size_t files) { return std::to_string(files) + "\n"; }

size_t filesInMark(const std::string& text) {
  size_t files = 0;
  std::from_chars(text.data(), text.data() + text.size(), files);
  return files <= kMostFiles && text == markOf(files) ? files : 0;
}

}  // namespace tutti::parallel
