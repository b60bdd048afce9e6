// Checkpoints on disk: a folder for each step, in it a file per rank and a mark that all are there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "src/parallel/checkpoint_format.hpp"

using namespace tutti::parallel;
namespace fs = std::filesystem;

namespace tutti::parallel {
namespace {

constexpr const char* kMark = "complete";  // in the folder of a step that is

fs::path rankFile(const fs::path& folder, size_t rank) { return folder / ("rank-" + std::to_string(rank)); }

/// A file that is closed on every way out.  Nothing is waited for if it is no file: a pipe would hold a rank for ever.
class File final : public CheckpointFile {
 public:
  File(const fs::path& path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644)) {
    if (fd_ < 0) fault("cannot be opened");
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return;
    ::close(fd_);
    fail(tuttiSystemError, path.string(), " is no file");
  }
  ~File() override { ::close(fd_); }
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
  void read(void* data, size_t bytes, uint64_t offset) const override {
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
  uint64_t size() const override { return fs::file_size(path_); }
  std::string name() const override { return path_.string(); }

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
  const std::string head = headOf(infos, data.all());
  const fs::path part = path.string() + ".part";
  {
    File file(part, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(head.data(), head.size());
    for (size_t i = 0; i < infos.size(); ++i) file.write(data.at(i), infos[i].bytes());
    file.sync();
  }
  fs::rename(part, path);
  syncFolder(path.parent_path());
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
  const size_t n = filesInMark(text);
  if (n == 0) fail(tuttiSystemError, folder.string(), " is not complete");
  return n;
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
      const std::string text = markOf(static_cast<size_t>(group.size()));
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
      const fs::path at = fs::path(folder) / stepName(which);
      const auto open = [&at](size_t file) { return std::make_unique<File>(rankFile(at, file), O_RDONLY); };
      loadPieces({filesOf(at), static_cast<size_t>(group.rank()), open}, infos, data.all());
      data.putBack();
    });
    *step = which;
  });
}
