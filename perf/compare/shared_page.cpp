#include "perf/compare/shared_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tutti::compare {

SharedPage::SharedPage(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("the ranks' page " + path + ": " + std::strerror(error));
  layout_ = static_cast<Layout*>(memory);
}

SharedPage::~SharedPage() { munmap(layout_, kBytes); }

}  // namespace tutti::compare
