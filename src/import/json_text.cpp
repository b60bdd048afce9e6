#include "src/import/json_text.hpp"

#include "src/import/imported_plan.hpp"

namespace tutti::foreign {

Result<nlohmann::json> parseJson(std::string_view text, const std::string& origin) {
  if (text.size() > kMostPlanBytes)
    return invalidArgument(ErrorCode::PlanMalformed, origin, ": larger than ", kMostPlanBytes, " bytes");
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = e.what();
    const size_t end = what.find("] ");
    return invalidArgument(ErrorCode::PlanMalformed, origin,
                           ": not JSON: ", end == std::string_view::npos ? what : what.substr(end + 2));
  }
}

JsonAt JsonAt::child(const nlohmann::json& value, const std::string& name) const {
  JsonAt result;
  result.value_ = &value;
  result.path_ = cat(path_, "/", name);
  return result;
}

Result<JsonAt> JsonAt::at(const char* key) const {
  if (!has(key)) return error("has no ", key);
  return child((*value_)[key], key);
}

Result<int64_t> JsonAt::number(int64_t least, int64_t most) const {
  if (!value_->is_number_integer()) return error("is not a whole number");
  const bool large = value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t result = large ? INT64_MAX : value_->get<int64_t>();
  if (large || result < least || result > most) return error(value_->dump(), " is outside ", least, "..", most);
  return result;
}

Result<int64_t> JsonAt::integer(const char* key, int64_t absent, int64_t least, int64_t most) const {
  if (!has(key) && absent != kRequired) return absent;
  TUTTI_ASSIGN(const JsonAt value, at(key));
  return value.number(least, most);
}

Result<int> JsonAt::whole(const char* key, int64_t absent, int64_t least, int64_t most) const {
  TUTTI_ASSIGN(const int64_t value, integer(key, absent, least, most));
  return static_cast<int>(value);
}

Result<uint64_t> JsonAt::unsigned64(const char* key, uint64_t absent) const {
  if (!has(key)) return absent;
  TUTTI_ASSIGN(const JsonAt value, at(key));
  if (!value.value_->is_number_unsigned()) return value.error("is not a whole number of at least 0");
  return value.value_->get<uint64_t>();
}

Result<std::string> JsonAt::text(const char* key) const {
  TUTTI_ASSIGN(const JsonAt value, at(key));
  if (!value.value_->is_string()) return value.error("is not a text");
  return value.value_->get<std::string>();
}

Result<bool> JsonAt::flag(const char* key, bool absent) const {
  if (!has(key)) return absent;
  TUTTI_ASSIGN(const JsonAt value, at(key));
  if (!value.value_->is_boolean()) return value.error("is neither true nor false");
  return value.value_->get<bool>();
}

Result<std::vector<JsonAt>> JsonAt::list(const char* key) const {
  std::vector<JsonAt> result;
  if (!has(key)) return result;
  TUTTI_ASSIGN(const JsonAt value, at(key));
  if (!value.value_->is_array()) return value.error("is not a list");
  for (size_t i = 0; i < value.value_->size(); ++i)
    result.push_back(value.child((*value.value_)[i], std::to_string(i)));
  return result;
}

}  // namespace tutti::foreign
