// What every rank's Session says of itself along with the communicator's own blob: where its descriptors can be
// fetched.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti {

struct Presence {
  std::string domain;    // descriptorDomain()
  std::string unixName;  // FdServer::name()
};

/// One byte of length before each text, then the blob.
std::string wrapInfo(const Presence& presence, std::string_view blob);

struct UnwrappedInfo {
  Presence presence;
  std::string blob;
};
/// Errors: RemoteError: not made by wrapInfo.
Result<UnwrappedInfo> unwrapInfo(std::string_view info);

}  // namespace tutti
