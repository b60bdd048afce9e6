// Whether two hosts reach each other as ranks would: on the addresses that Tutti takes, at ports that the system gives
// out, in both directions, with small and large messages.  One host serves, the other asks.
#pragma once

#include <functional>
#include <string>

#include "src/base/status.hpp"
#include "tools/doctor/finding.hpp"

namespace tutti::doctor {

/// Serves others one after another, until killed.
///   port   to be called at
///   once   ends after one
///   say    called with a line for people at each step
/// Errors: SystemError: it cannot listen.
Status serve(int port, bool once, const std::function<void(const std::string&)>& say);

/// Asks the server at "HOST", "HOST:PORT" or "[ADDRESS]:PORT".
Findings checkReach(const std::string& server);

}  // namespace tutti::doctor
