// A rendezvous that ranks have agreed on beforehand: an address that all of them were told.
#include <charconv>

#include "src/base/config.hpp"
#include "src/control/launch/launch.hpp"
#include "src/control/session/place_addresses.hpp"
#include "src/control/session/unique_id.hpp"

namespace tutti {
namespace {

struct HostPort {
  std::string host;
  int port = 0;
};

/// "host:port" or "[address]:port".
Result<HostPort> parseHostPort(const std::string& text) {
  const auto bad = [&] {
    return invalidArgument(ErrorCode::AddressMalformed, "'", text,
                           "' is no address; write host:port or [address]:port");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  HostPort place;
  place.host = text.substr(0, colon);
  const bool bracketed = place.host.front() == '[' && place.host.back() == ']';
  if (bracketed) place.host = place.host.substr(1, place.host.size() - 2);
  if (place.host.empty() || (!bracketed && place.host.find(':') != std::string::npos)) return bad();
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data() + colon + 1, end, place.port);
  if (error != std::errc() || next != end || place.port < 1 || place.port > 65535) return bad();
  return place;
}

}  // namespace

Result<tuttiUniqueId> agreedUniqueId(const std::string& address, bool serve) {
  TUTTI_ASSIGN(const HostPort at, parseHostPort(address));
  std::string given = configText("TUTTI_SECRET");
  const bool oneHost = isThisHost(at.host);
  TUTTI_TRY(launch::checkSecretOf(address, oneHost));
  const std::string label = "rendezvous " + address;
  const Secret base = deriveSecret({}, given.empty() ? label : "secret " + given);
  MeetingPlace place;
  place.secretOfUser = given.empty() && oneHost;
  if (!place.secretOfUser) place.secret = deriveSecret(base, label);
  place.commId = deriveCommId({}, label);  // those with another secret find the place, and hear that it differs
  setOpenBeforeKnown(&place.commId, false);
  if (serve && given.empty() && !oneHost) warnOfOpenPlace(address);
  wipe(given);
  if (serve) {
    constexpr int64_t kPatienceMs = 5000;  // for the port, while the place of the communicator before is closing
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses,
                 placeAddresses({at.host}, at.port, oneHost ? Reach::Host : Reach::Network));
    TUTTI_TRY(openRendezvousPlaceAt(addresses, place, Deadline::inMs(kPatienceMs)));
  }
  TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, resolveHost(at.host, at.port));
  place.controlAddress = makeControlAddress(addresses, kControlAddressMostBytes);
  return encodeUniqueId(place);
}

}  // namespace tutti
