// Lines of many ranks onto one stream: whole lines only, each perhaps with its rank in front.
//
// A Sink buffers what its file descriptor does not take at once, so that a slow reader never keeps tutti-run from its
// signals; nothing is read from the ranks while a Sink is full.  A Line collects one rank's bytes up to the line break.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/run/same_errors.hpp"

namespace tutti::run {

class Sink {
 public:
  /// same  what ranks say alike is not printed again; may be null, else outlives the Sink
  Sink(int fd, bool tag, bool colour, SameErrors* same = nullptr) : fd_(fd), tag_(tag), colour_(colour), same_(same) {}
  int fd() const { return fd_; }
  bool wantsToWrite() const { return !pending_.empty(); }
  bool full() const { return pending_.size() > kFullBytes; }
  /// `line` ends with a line break.
  void add(int rank, std::string_view line);
  /// Lines of tutti-run's own.
  void say(std::string_view lines) { pending_ += lines; }
  /// Writes as much as goes without waiting; call when poll says so.  A reader that is gone is not an error.
  void flush();

 private:
  static constexpr size_t kFullBytes = size_t{1} << 20;
  int fd_;
  bool tag_, colour_;
  SameErrors* same_;
  std::string pending_;
};

class Line {
 public:
  /// Passes whole lines on; a line without end is cut at 64 KiB.
  void take(std::string_view bytes, int rank, Sink* sink);
  /// The rank has ended: the rest counts as a line.
  void end(int rank, Sink* sink);

 private:
  std::string partial_;
};

}  // namespace tutti::run
