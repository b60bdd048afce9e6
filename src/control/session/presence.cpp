#include "src/control/session/presence.hpp"

namespace tutti {
namespace {

void appendShort(std::string* out, std::string_view text) {
  text = text.substr(0, 255);
  out->push_back(static_cast<char>(text.size()));
  out->append(text);
}

bool takeShort(std::string_view* in, std::string* text) {
  if (in->empty()) return false;
  const size_t length = static_cast<unsigned char>(in->front());
  if (in->size() < 1 + length) return false;
  *text = in->substr(1, length);
  in->remove_prefix(1 + length);
  return true;
}

}  // namespace

std::string wrapInfo(const Presence& presence, std::string_view blob) {
  std::string info;
  appendShort(&info, presence.domain);
  appendShort(&info, presence.unixName);
  info.append(blob);
  return info;
}

Result<UnwrappedInfo> unwrapInfo(std::string_view info) {
  UnwrappedInfo unwrapped;
  if (!takeShort(&info, &unwrapped.presence.domain) || !takeShort(&info, &unwrapped.presence.unixName)) {
    return remoteError(ErrorCode::Malformed, "its description of ", info.size(), " bytes is cut short");
  }
  unwrapped.blob = info;
  return unwrapped;
}

}  // namespace tutti
