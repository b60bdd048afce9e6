#include "src/control/session/unique_id.hpp"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/control/handshake.hpp"
#include "src/control/session/interfaces.hpp"
#include "src/control/session/open_places.hpp"
#include "src/control/session/session.hpp"

namespace tutti {
namespace {

constexpr char kMagic[8] = {'t', 'u', 't', 't', 'i', 'i', 'd', 1};
constexpr size_t kCommIdAt = sizeof kMagic;
constexpr size_t kSecretAt = kCommIdAt + std::tuple_size_v<CommId>;
constexpr size_t kControlAddressAt = kSecretAt + std::tuple_size_v<Secret>;
constexpr size_t kControlAddressBytes = TUTTI_UNIQUE_ID_BYTES - kControlAddressAt;

/// The addresses of a control address that fit, without touching their text.
std::string_view shorten(std::string_view controlAddress, size_t maxBytes) {
  if (controlAddress.size() <= maxBytes) return controlAddress;
  const size_t comma = controlAddress.substr(0, maxBytes + 1).rfind(',');
  return controlAddress.substr(0, comma == std::string_view::npos ? 0 : comma);
}

/// Keep the Session until everybody has met.
Status keepRendezvous(std::shared_ptr<Session> session, const CommId& commId) {
  const int64_t timeoutMs = patienceMs();
  const Deadline deadline = timeoutMs == 0 ? Deadline::never() : Deadline::inMs(std::max(timeoutMs, kRendezvousLifeMs));
  return OpenPlaces::instance().keep(std::move(session), commId, deadline);
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

std::string portOfThisHost(int port) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return cat("port ", port, " of ", name);
}

Status tell(const MeetingPlace& place, int rank, int nRanks, const Failure& why, Deadline deadline) {
  TUTTI_ASSIGN(const std::shared_ptr<Session> session, Session::create(std::vector<SocketAddress>()));
  JoinRequest request;
  request.commId = place.commId;
  request.secret = place.secret;
  request.rank = rank;
  request.nRanks = nRanks;
  request.rendezvous = place.controlAddress;
  return session->tell(request, why, deadline);
}

/// Whether it is this very place, of another process, that has the port, and not one that is merely closing.
Status findTwin(int port, const MeetingPlace& place, Deadline deadline) {
  MeetingPlace twin = place;
  twin.controlAddress = cat("127.0.0.1:", port, ",[::1]:", port);
  const Status why = invalidUsage("two processes open the rendezvous at port ", port,
                                  ", which only rank 0 does: give every rank its own number");
  const Status told = tell(twin, 0, kMaxRanks, {0, why}, deadline);
  if (told.ok()) return why;
  if (told.code() != tuttiInvalidUsage) return {};
  return invalidUsage("port ", port,
                      " has a rendezvous of the same job with another secret: is rank 0 there twice, "
                      "with different values of TUTTI_SECRET?");
}

}  // namespace

int64_t patienceMs() {
  const Result<int64_t> given = configInteger("TUTTI_TIMEOUT_MS");
  return given.ok() ? *given : 30'000;
}

void tellRendezvousPlace(const MeetingPlace& place, int rank, int nRanks, const Status& why) {
  if (nRanks < 1 || nRanks > kMaxRanks) return;
  if (nRanks == 1) return closeRendezvousPlace(place.commId);
  const Deadline deadline = Deadline::inMs(kTellMs);
  const bool possible = rank >= 0 && rank < nRanks;
  const Failure failure{possible ? rank : -1, remoteError("rank ", rank, " cannot join: ", why.message())};
  const Status told = tell(place, rank, nRanks, failure, deadline);
  if (!told.ok())
    TUTTI_INFO("bootstrap", "the other ranks do not hear that rank ", rank, " cannot join: ", told.message());
  OpenPlaces::instance().await(place.commId, deadline);
}

void awaitRendezvousPlace(const CommId& commId) { OpenPlaces::instance().await(commId, Deadline::inMs(kTellMs)); }

void closeRendezvousPlace(const CommId& commId) { OpenPlaces::instance().close(commId); }

tuttiUniqueId encodeUniqueId(const MeetingPlace& place) {
  tuttiUniqueId id{};
  std::memcpy(id.internal, kMagic, sizeof kMagic);
  std::memcpy(id.internal + kCommIdAt, place.commId.data(), place.commId.size());
  std::memcpy(id.internal + kSecretAt, place.secret.data(), place.secret.size());
  const std::string_view controlAddress = shorten(place.controlAddress, kControlAddressBytes);
  std::memcpy(id.internal + kControlAddressAt, controlAddress.data(), controlAddress.size());
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
  const std::string_view field(id.internal + kControlAddressAt, kControlAddressBytes);
  const size_t end = std::min(field.find('\0'), field.size());
  if (field.find_first_not_of('\0', end) != std::string_view::npos) {
    return invalidArgument("the unique id is damaged: there are bytes behind its address");
  }
  place.controlAddress = field.substr(0, end);
  // An address on an interface that only the other host has is not an error of the id.
  const Status parsed = asStatus(parseControlAddress(place.controlAddress));
  if (parsed.code() == tuttiInvalidArgument) {
    return invalidArgument("the unique id is damaged: ", parsed.message());
  }
  return place;
}

Result<tuttiUniqueId> openRendezvousPlace() {
  TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create());
  MeetingPlace place;
  place.commId = randomBytes<CommId>();
  setOpenBeforeKnown(&place.commId, true);
  place.secret = randomBytes<Secret>();
  place.controlAddress = session->controlAddress();
  session->serveRendezvous(place.commId, place.secret, place.controlAddress);
  TUTTI_TRY(keepRendezvous(std::move(session), place.commId));
  return encodeUniqueId(place);
}

Status openRendezvousPlaceAt(int port, const MeetingPlace& place, Deadline deadline) {
  constexpr int64_t kClosingMs = 1000;  // for the rendezvous of the communicator before, which may have the same name
  TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, everyAddress(port));
  const Deadline closed = Deadline::inMs(kClosingMs);
  for (;;) {
    Result<std::shared_ptr<Session>> session = Session::create(addresses);
    if (session.ok()) {
      (*session)->serveRendezvous(place.commId, place.secret, portOfThisHost(port));
      return keepRendezvous(std::move(*session), place.commId);
    }
    if (session.status().code() != tuttiSystemError) return session.status();
    if (closed.passed()) TUTTI_TRY(findTwin(port, place, Deadline::inMs(kClosingMs)));
    if (deadline.passed()) return session.status();
    ::usleep(20'000);
  }
}

}  // namespace tutti
