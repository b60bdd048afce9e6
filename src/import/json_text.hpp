// Values of a JSON document with errors that name file and path.  For readers; needs nlohmann-json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace tutti::foreign {

/// The document.  Errors: InvalidArgument with origin, line and column of what is not JSON.
Result<nlohmann::json> parseJson(std::string_view text, const std::string& origin);

/// A value and where it is.  Borrows the document.
class JsonAt {
 public:
  JsonAt(const nlohmann::json& value, std::string origin) : value_(&value), path_(std::move(origin) + ": ") {}

  bool has(const char* key) const { return value_->is_object() && value_->contains(key); }
  /// Errors: InvalidArgument with the path, if there is none of that name.
  Result<JsonAt> at(const char* key) const;
  /// The whole number under key, in [least, most]; `absent` without it, or an error if absent is kRequired.
  static constexpr int64_t kRequired = INT64_MIN;
  Result<int64_t> integer(const char* key, int64_t absent, int64_t least, int64_t most) const;
  /// As integer(), for limits that fit an int.
  Result<int> whole(const char* key, int64_t absent, int64_t least, int64_t most) const;
  /// This value as a whole number.
  Result<int64_t> number(int64_t least, int64_t most) const;
  /// As integer(), for numbers up to 2^64-1.
  Result<uint64_t> unsigned64(const char* key, uint64_t absent) const;
  Result<std::string> text(const char* key) const;
  Result<bool> flag(const char* key, bool absent) const;
  /// The elements of the array under key; none without it.
  Result<std::vector<JsonAt>> list(const char* key) const;

  /// "file: /gpus/0/ops: sentence"
  template <class... Args>
  Status error(const Args&... args) const {
    return invalidArgument(ErrorCode::PlanMalformed, path_, ": ", args...);
  }

 private:
  JsonAt() = default;
  JsonAt child(const nlohmann::json& value, const std::string& name) const;

  const nlohmann::json* value_ = nullptr;
  std::string path_;
};

}  // namespace tutti::foreign
