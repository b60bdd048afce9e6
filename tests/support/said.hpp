// What this process writes to standard error.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace tutti::test {

/// Keeps it while this lives, and passes it on at the end.
class Said {
 public:
  Said() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
    if (file_ == nullptr || before_ < 0 || ::dup2(::fileno(file_), STDERR_FILENO) < 0) {
      throw std::runtime_error("cannot redirect standard error");
    }
  }
  ~Said() {
    const std::string all = text();
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
    std::fwrite(all.data(), 1, all.size(), stderr);
  }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  /// So far.
  std::string text() const {
    std::fflush(stderr);
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = ::pread(::fileno(file_), part, sizeof part, static_cast<off_t>(all.size()))) > 0;) {
      all.append(part, static_cast<size_t>(n));
    }
    return all;
  }
  /// How often `words` are in it.
  size_t times(const std::string& words) const {
    const std::string all = text();
    size_t n = 0;
    for (size_t at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++n;
    return n;
  }

 private:
  std::FILE* file_;
  int before_;
};

}  // namespace tutti::test
