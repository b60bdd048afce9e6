// Checkpoints: a file per rank, pieces with their hashes, and a mark that all are there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "src/parallel/pieces.hpp"

using namespace tutti::parallel;
namespace fs = std::filesystem;

namespace tutti::parallel {
namespace {

constexpr uint64_t kMagic = 0x31306b6369747475;  // "uttick01"
constexpr uint64_t kMostPieces = uint64_t{1} << 24;

struct FileHead {
  uint64_t magic, pieces, headHash;  // of the entries
};
struct Entry {
  PieceInfo info;
  uint64_t offset, hash;
};

constexpr std::string_view kStep = "step-";
constexpr const char* kMark = "complete";  // in the folder of a step that is

std::string stepName(int64_t step) {
  std::string digits = std::to_string(step);
  return std::string(kStep) + std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0') + digits;
}

/// -1: no step has this name, which may be one that somebody has put aside ("step-000000000042-old").
int64_t stepOf(const std::string& name) {
  int64_t step = -1;
  if (name.starts_with(kStep)) std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  return step >= 0 && name == stepName(step) ? step : -1;
}

fs::path rankFile(const fs::path& folder, size_t rank) { return folder / ("rank-" + std::to_string(rank)); }

/// A file that is closed on every way out.  Nothing is waited for if it is no file: a pipe would hold a rank for ever.
class File {
 public:
  File(const fs::path& path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644)) {
    if (fd_ < 0) fault("cannot be opened");
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return;
    ::close(fd_);
    fail(tuttiSystemError, path.string(), " is no file");
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::write(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fault("cannot be written");
      at += n;
      bytes -= static_cast<size_t>(n);
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) fault("cannot be written");
  }
  void read(void* data, size_t bytes, uint64_t offset) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::pread(fd_, at, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fault("cannot be read");
      if (n == 0) fail(tuttiSystemError, path_.string(), " ends too early");
      at += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<size_t>(n);
    }
  }
  uint64_t size() const { return fs::file_size(path_); }

 private:
  [[noreturn]] void fault(const char* what) const {
    fail(tuttiSystemError, path_.string(), " ", what, ": ", std::strerror(errno));
  }
  fs::path path_;
  int fd_;
};

/// Names in a folder are on disk: after a crash the mark is not there without what it stands for.
void syncFolder(const fs::path& path) { File(path, O_RDONLY | O_DIRECTORY).sync(); }

void writePieces(const fs::path& path, const std::vector<PieceInfo>& infos, const PieceData& data) {
  std::vector<Entry> entries;
  uint64_t offset = sizeof(FileHead) + infos.size() * sizeof(Entry);
  for (size_t i = 0; i < infos.size(); ++i) {
    entries.push_back({infos[i], offset, hashOfBytes(data.at(i), infos[i].bytes())});
    offset += infos[i].bytes();
  }
  const fs::path part = path.string() + ".part";
  {
    File file(part, O_WRONLY | O_CREAT | O_TRUNC);
    const FileHead head{kMagic, entries.size(), hashOfBytes(entries.data(), entries.size() * sizeof(Entry))};
    file.write(&head, sizeof(head));
    file.write(entries.data(), entries.size() * sizeof(Entry));
    for (size_t i = 0; i < infos.size(); ++i) file.write(data.at(i), infos[i].bytes());
    file.sync();
  }
  fs::rename(part, path);
  syncFolder(path.parent_path());
}

std::vector<Entry> readEntries(File& file, const fs::path& path) {
  FileHead head{};
  file.read(&head, sizeof(head), 0);
  const uint64_t size = file.size();
  if (head.magic != kMagic || head.pieces > kMostPieces || head.pieces > size / sizeof(Entry)) {
    fail(tuttiSystemError, path.string(), " is no checkpoint");
  }
  std::vector<Entry> entries(head.pieces);
  file.read(entries.data(), entries.size() * sizeof(Entry), sizeof(head));
  bool sound = hashOfBytes(entries.data(), entries.size() * sizeof(Entry)) == head.headHash;
  for (const Entry& e : entries) {
    sound = sound && isSound(e.info) && e.offset <= size && e.info.bytes() <= size - e.offset;
  }
  if (!sound) fail(tuttiSystemError, path.string(), " is not as it was written");
  return entries;
}

/// The newest step in folder that is complete.
int64_t newestStep(const fs::path& folder) {
  int64_t newest = -1;
  std::error_code error, hidden;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const int64_t step = stepOf(entry->path().filename());
    if (step > newest && fs::exists(entry->path() / kMark, hidden)) newest = step;
  }
  return newest;
}

/// How many files the step in folder has, as its mark says.
size_t filesOf(const fs::path& folder) {
  if (!fs::exists(folder / kMark)) fail(tuttiSystemError, folder.string(), " is not complete");
  File mark(folder / kMark, O_RDONLY);
  std::string text(std::min<uint64_t>(mark.size(), 24), ' ');
  mark.read(text.data(), text.size(), 0);
  size_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  if (n == 0 || n > kMostPieces) fail(tuttiSystemError, folder.string(), " is not complete");
  return n;
}

void loadPieces(const fs::path& folder, size_t first, const std::vector<PieceInfo>& infos, const PieceData& pieces) {
  const size_t nFiles = filesOf(folder);
  std::vector<std::vector<PieceInfo>> sources(nFiles);
  std::vector<std::vector<Entry>> entries(nFiles);
  for (size_t f = 0; f < nFiles; ++f) {
    const fs::path path = rankFile(folder, f);
    File file(path, O_RDONLY);
    entries[f] = readEntries(file, path);
    for (const Entry& e : entries[f]) sources[f].push_back(e.info);
  }
  std::vector<Move> moves = movesFor(infos, sources, first % nFiles, "this rank");
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.source != b.source ? a.source < b.source : a.piece < b.piece;
  });
  std::vector<char> data;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move& m = moves[i];
    const Entry& e = entries[m.source][m.piece];
    if (i == 0 || moves[i - 1].source != m.source || moves[i - 1].piece != m.piece) {
      data.resize(e.info.bytes());
      const fs::path path = rankFile(folder, m.source);
      File(path, O_RDONLY).read(data.data(), data.size(), e.offset);
      if (hashOfBytes(data.data(), data.size()) != e.hash) {
        fail(tuttiSystemError, path.string(), " is not as it was written");
      }
    }
    const size_t one = bytesOf(static_cast<tuttiDataType_t>(e.info.dtype));
    std::memcpy(pieces.at(m.want) + static_cast<size_t>(m.to) * one, data.data() + static_cast<size_t>(m.from) * one,
                static_cast<size_t>(m.length) * one);
  }
}

/// Runs body and shares its failure with the group.
template <class Body>
void together(Group& group, const Body& body) {
  std::string complaint;
  tuttiResult_t code = tuttiSystemError;
  try {
    body();
  } catch (const Failure& failure) {
    complaint = failure.text;
    code = failure.code;
  } catch (const std::exception& error) {  // of the file system, or of memory; nobody is left waiting
    complaint = error.what();
  }
  agreeOrFail(group, code, complaint);
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiCheckpointSave(tuttiComm_t comm, const char* folder, int64_t step, const tuttiPiece_t* pieces,
                                  size_t n) {
  return guarded([&] {
    require(folder != nullptr && step >= 0, "folder is NULL, or step is ", step);
    const auto infos = infosOf(pieces, n);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    const fs::path path = fs::path(folder) / stepName(step);
    together(group, [&] {
      fs::create_directories(path);
      if (group.rank() == 0) fs::remove(path / kMark);  // of an earlier try
    });
    together(group, [&] {
      writePieces(rankFile(path, static_cast<size_t>(group.rank())), infos, PieceData(*device, pieces, infos, true));
    });
    together(group, [&] {
      if (group.rank() != 0) return;
      const std::string text = std::to_string(group.size()) + "\n";
      File file(path / "complete.part", O_WRONLY | O_CREAT | O_TRUNC);
      file.write(text.data(), text.size());
      file.sync();
      fs::rename(path / "complete.part", path / kMark);
      syncFolder(path);
      syncFolder(path.parent_path());
    });
  });
}

tuttiResult_t tuttiCheckpointLoad(tuttiComm_t comm, const char* folder, int64_t* step, const tuttiPiece_t* pieces,
                                  size_t n) {
  return guardedIf(folder != nullptr && step != nullptr, "folder or step is NULL", [&] {
    const auto infos = infosOf(pieces, n);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    int64_t which = *step;
    if (which < 0) {
      if (group.rank() == 0) which = newestStep(folder);  // others may see a newer one
      group.broadcastHost(&which, 1, tuttiInt64, 0);
    }
    together(group, [&] {
      if (which < 0) fail(tuttiSystemError, folder, " has no complete step");
      PieceData data(*device, pieces, infos, true);  // what a failing load leaves as it was stays so
      loadPieces(fs::path(folder) / stepName(which), static_cast<size_t>(group.rank()), infos, data);
      data.putBack();
    });
    *step = which;
  });
}
