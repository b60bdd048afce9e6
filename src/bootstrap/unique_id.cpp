#include "src/bootstrap/unique_id.hpp"

#include <netinet/in.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/session.hpp"

namespace tutti {
namespace {

constexpr char kMagic[8] = {'t', 'u', 't', 't', 'i', 'i', 'd', 1};
constexpr size_t kCommIdAt = sizeof kMagic;
constexpr size_t kSecretAt = kCommIdAt + std::tuple_size_v<CommId>;
constexpr size_t kEndpointAt = kSecretAt + std::tuple_size_v<Secret>;
constexpr size_t kEndpointBytes = TUTTI_UNIQUE_ID_BYTES - kEndpointAt;

/// The addresses of an endpoint that fit, without touching their text.
std::string_view shorten(std::string_view endpoint, size_t maxBytes) {
  if (endpoint.size() <= maxBytes) return endpoint;
  const size_t comma = endpoint.substr(0, maxBytes + 1).rfind(',');
  return endpoint.substr(0, comma == std::string_view::npos ? 0 : comma);
}

template <size_t N>
void fillRandom(std::array<unsigned char, N>* bytes) {
  for (size_t done = 0; done < N;) {
    const ssize_t n = getrandom(bytes->data() + done, N - done, 0);
    if (n > 0) done += static_cast<size_t>(n);
  }
}

/// The meeting places of this process that are open.  Process-wide, because the unique id that names one travels
/// outside of Tutti; never destroyed, because their threads may outlive static destructors.
struct OpenPlaces {
  std::mutex mutex;
  std::map<CommId, std::weak_ptr<Session>> sessions;
  static OpenPlaces& instance() {
    static OpenPlaces* places = new OpenPlaces;
    return *places;
  }
};

/// Keep the Session until everybody has met.
Status keepMeeting(std::shared_ptr<Session> session, const CommId& commId) {
  TUTTI_ASSIGN(const int64_t timeoutMs, configInteger("TUTTI_TIMEOUT_MS"));
  const Deadline deadline = timeoutMs == 0 ? Deadline::never() : Deadline::inMs(std::max(timeoutMs, kMeetingLifeMs));
  OpenPlaces& places = OpenPlaces::instance();
  {
    const std::lock_guard lock(places.mutex);
    places.sessions[commId] = session;
  }
  try {
    std::thread([&places, session = std::move(session), commId, deadline] {
      if (!session->waitForMeeting(commId, deadline)) {
        TUTTI_INFO("bootstrap", "the meeting place at ", session->endpoint(), " closes: not everybody came");
      }
      const std::lock_guard lock(places.mutex);
      places.sessions.erase(commId);
    }).detach();
  } catch (const std::system_error& e) {
    return systemError("cannot start a thread: ", e.what());
  }
  return {};
}

/// "Any address" of the families that this host has.
Result<std::vector<SocketAddress>> everyAddress(int port) {
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> interfaces, listInterfaces());
  std::vector<SocketAddress> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    if (std::none_of(interfaces.begin(), interfaces.end(),
                     [&](const InterfaceAddress& a) { return a.address.family() == family; })) {
      continue;
    }
    SocketAddress any;
    any.storage.ss_family = static_cast<sa_family_t>(family);
    any.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    any.setPort(port);
    addresses.push_back(any);
  }
  if (addresses.empty()) return systemError("this host has no network interface that is up");
  return addresses;
}

}  // namespace

void closeMeetingPlace(const CommId& commId) {
  OpenPlaces& places = OpenPlaces::instance();
  const std::lock_guard lock(places.mutex);
  const auto found = places.sessions.find(commId);
  if (found == places.sessions.end()) return;
  // Its thread destroys the Session once this lock is free, so the reference taken here may be the last but one.
  if (const std::shared_ptr<Session> session = found->second.lock()) session->endMeetings();
}

tuttiUniqueId encodeUniqueId(const MeetingPlace& place) {
  tuttiUniqueId id{};
  std::memcpy(id.internal, kMagic, sizeof kMagic);
  std::memcpy(id.internal + kCommIdAt, place.commId.data(), place.commId.size());
  std::memcpy(id.internal + kSecretAt, place.secret.data(), place.secret.size());
  const std::string_view endpoint = shorten(place.endpoint, kEndpointBytes);
  std::memcpy(id.internal + kEndpointAt, endpoint.data(), endpoint.size());
  return id;
}

Result<MeetingPlace> decodeUniqueId(const tuttiUniqueId& id) {
  static const tuttiUniqueId kZero{};
  if (std::memcmp(&id, &kZero, sizeof id) == 0) {
    return invalidArgument("the unique id is all zero: it did not come from the rank that called tuttiGetUniqueId");
  }
  if (std::memcmp(id.internal, kMagic, sizeof kMagic - 1) != 0) {
    return invalidArgument("these are not the bytes of a unique id made by tuttiGetUniqueId");
  }
  if (id.internal[sizeof kMagic - 1] != kMagic[sizeof kMagic - 1]) {
    return invalidArgument("the unique id was made by another version of Tutti (format ",
                           int{id.internal[sizeof kMagic - 1]}, ", here ", int{kMagic[sizeof kMagic - 1]}, ")");
  }
  MeetingPlace place;
  std::memcpy(place.commId.data(), id.internal + kCommIdAt, place.commId.size());
  std::memcpy(place.secret.data(), id.internal + kSecretAt, place.secret.size());
  const std::string_view field(id.internal + kEndpointAt, kEndpointBytes);
  const size_t end = std::min(field.find('\0'), field.size());
  if (field.find_first_not_of('\0', end) != std::string_view::npos) {
    return invalidArgument("the unique id is damaged: there are bytes behind its address");
  }
  place.endpoint = field.substr(0, end);
  // An address on an interface that only the other host has is not an error of the id.
  const Status parsed = asStatus(parseEndpoint(place.endpoint));
  if (parsed.code() == tuttiInvalidArgument) {
    return invalidArgument("the unique id is damaged: ", parsed.message());
  }
  return place;
}

Result<tuttiUniqueId> openMeetingPlace() {
  TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create());
  MeetingPlace place;
  fillRandom(&place.commId);
  fillRandom(&place.secret);
  place.endpoint = session->endpoint();
  session->serveMeeting(place.commId, place.secret);
  TUTTI_TRY(keepMeeting(std::move(session), place.commId));
  return encodeUniqueId(place);
}

Status openMeetingPlaceAt(int port, const CommId& commId, const Secret& secret, Deadline deadline) {
  TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, everyAddress(port));
  for (;;) {
    Result<std::shared_ptr<Session>> session = Session::create(addresses);
    if (session.ok()) {
      (*session)->serveMeeting(commId, secret);
      return keepMeeting(std::move(*session), commId);
    }
    if (session.status().code() != tuttiSystemError || deadline.passed()) return session.status();
    ::usleep(20'000);  // the meeting place of the communicator before is closing
  }
}

}  // namespace tutti
