#include "tools/run/output.hpp"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tutti::run {
namespace {

constexpr size_t kLongestLine = size_t{64} << 10;
constexpr const char* kColours[] = {"36", "33", "32", "35", "34", "31"};

}  // namespace

void Sink::add(int rank, std::string_view line) {
  if (same_ != nullptr && same_->repeats(rank, line, SameErrors::Clock::now())) return;
  if (tag_) {
    if (colour_) pending_.append("\033[").append(kColours[static_cast<size_t>(rank) % std::size(kColours)]).append("m");
    pending_.append("[").append(std::to_string(rank)).append("] ");
    if (colour_) pending_.append("\033[0m");
  }
  pending_ += line;
}

void Sink::flush() {
  while (!pending_.empty()) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) != 1) return;
    // A pipe that polls writable takes PIPE_BUF bytes without blocking.
    const ssize_t n = write(fd_, pending_.data(), std::min<size_t>(pending_.size(), PIPE_BUF));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return pending_.clear();  // nobody reads any more
    pending_.erase(0, static_cast<size_t>(n));
  }
}

void Line::take(std::string_view bytes, int rank, Sink* sink) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      partial_ += bytes;
      if (partial_.size() >= kLongestLine) this->end(rank, sink);
      return;
    }
    partial_ += bytes.substr(0, end + 1);
    sink->add(rank, partial_);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void Line::end(int rank, Sink* sink) {
  if (partial_.empty()) return;
  sink->add(rank, partial_ + "\n");
  partial_.clear();
}

}  // namespace tutti::run
