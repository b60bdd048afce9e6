// Python objects as a pickle of protocol 2, as far as records need them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::trace {

/// Values in the order of a pickle: a container is opened, filled and closed.
class Pickle {
 public:
  Pickle() : out_("\x80\x02", 2) {}

  void none() { out_ += 'N'; }
  void flag(bool value) { out_ += value ? '\x88' : '\x89'; }
  void number(int64_t value) {
    out_ += "\x8a\x08";  // LONG1 of 8 bytes
    little(static_cast<uint64_t>(value), 8);
  }
  void text(std::string_view value) {
    out_ += 'X';
    little(value.size(), 4);
    out_ += value;
  }
  void beginList() { out_ += "]("; }
  void endList() { out_ += 'e'; }
  void beginDict() { out_ += "}("; }
  void endDict() { out_ += 'u'; }
  void beginTuple() { out_ += '('; }
  void endTuple() { out_ += 't'; }
  std::string take() { return std::move(out_) + '.'; }

 private:
  void little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string out_;
};

}  // namespace tutti::trace
