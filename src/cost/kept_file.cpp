// Kept texts on disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "src/base/fd.hpp"
#include "src/base/file_limit.hpp"
#include "src/base/text.hpp"
#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

/// Make the folders above `path`.
Status makeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return errnoError(ErrorCode::FileNotKept, errno, cat("mkdir ", folder));
  }
  return {};
}

Status writeAll(int fd, const std::string& text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoError(ErrorCode::FileNotKept, errno, cat("write ", path));
    at += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace

Result<std::string> readKeptFile(const std::string& path, const char* what, size_t most) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe there must not stop us
  if (!fd.valid()) return errnoError(ErrorCode::FileNotKept, errno, cat("open ", path));
  struct stat about {};
  if (fstat(fd.get(), &about) != 0) return errnoError(ErrorCode::FileNotKept, errno, cat("stat ", path));
  if (!S_ISREG(about.st_mode)) return invalidArgument(ErrorCode::KeptFigures, what, " ", path, " is not a file");
  std::string text(most + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoError(ErrorCode::FileNotKept, errno, cat("read ", path));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

Status writeKeptFile(const std::string& path, const std::string& text) {
  TUTTI_TRY(makeFolders(path));
  const FileLimitAsError noSignal;
  std::string temporary = cat(path, ".XXXXXX");
  const Fd fd(mkostemp(temporary.data(), O_CLOEXEC));  // 0600, and a name of its own for every writer
  if (!fd.valid()) return errnoError(ErrorCode::FileNotKept, errno, cat("create ", temporary));
  Status status = writeAll(fd.get(), text, temporary);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = errnoError(ErrorCode::FileNotKept, errno, cat("rename ", temporary, " to ", path));
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace tutti
