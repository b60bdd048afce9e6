// An environment variable for the length of a test.
#pragma once

#include <stdlib.h>

#include <string>

namespace tutti::test {

/// Set while this lives, unset afterwards.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace tutti::test
