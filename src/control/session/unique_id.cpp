#include "src/control/session/unique_id.hpp"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
constexpr char kOfUser = 2;  // instead of the 1: without a secret
constexpr size_t kCommIdAt = sizeof kMagic;
constexpr size_t kSecretAt = kCommIdAt + std::tuple_size_v<CommId>;
constexpr size_t kControlAddressAt = kSecretAt + Secret::kBytes;
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
  request.secretOfUser = place.secretOfUser;
  request.rank = rank;
  request.nRanks = nRanks;
  request.rendezvous = place.controlAddress;
  return session->tell(request, why, deadline);
}

/// Whether it is this very place, of another process, that has the port, and not one that is merely closing.
Status findTwin(int port, const MeetingPlace& place, Deadline deadline) {
  MeetingPlace twin = place;
  twin.controlAddress = cat("127.0.0.1:", port, ",[::1]:", port);  // which every place has
  const Status why = invalidUsage(ErrorCode::LauncherVariables, "two processes open the rendezvous at port ", port,
                                  ", which only rank 0 does: give every rank its own number");
  const Status told = tell(twin, 0, kMaxRanks, {0, why}, deadline);
  if (told.ok()) return why;
  if (told.code() != tuttiInvalidUsage) return {};
  return invalidUsage(ErrorCode::LauncherVariables, "port ", port,
                      " has a rendezvous of the same job with another secret: is rank 0 there twice, "
                      "with different values of TUTTI_SECRET?");
}

}  // namespace

void warnOfOpenPlace(const std::string& where) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  TUTTI_WARN("bootstrap", "ranks of several hosts meet at ", where,
             " without a secret: whoever reaches that port can join this job, and read and change its data; set "
             "TUTTI_SECRET alike on all ranks (docs/security.md)");
}

int64_t patienceMs() {
  const Result<int64_t> given = configInteger("TUTTI_TIMEOUT_MS");
  return given.ok() ? *given : 30'000;
}

void tellRendezvousPlace(const MeetingPlace& place, int rank, int nRanks, const Status& why, bool waits) {
  if (nRanks < 1 || nRanks > kMaxRanks) return;
  if (nRanks == 1) return closeRendezvousPlace(place.commId);
  const Deadline deadline = Deadline::inMs(kTellMs);
  const bool possible = rank >= 0 && rank < nRanks;
  const Failure failure{possible ? rank : -1,
                        remoteError(ErrorCode::CannotJoin, "rank ", rank, " cannot join: ", why.text())};
  const Status told = tell(place, rank, nRanks, failure, deadline);
  if (!told.ok())
    TUTTI_INFO("bootstrap", "the other ranks do not hear that rank ", rank, " cannot join: ", told.message());
  if (waits) OpenPlaces::instance().await(place.commId, deadline);
}

void awaitRendezvousPlace(const CommId& commId) { OpenPlaces::instance().await(commId, Deadline::inMs(kTellMs)); }

void tellRankEnded(const MeetingPlace& place, int rank, const std::string& how) {
  OpenPlaces::instance().rankEnded(place.commId, rank, how);
}

void closeRendezvousPlace(const CommId& commId) { OpenPlaces::instance().close(commId); }

tuttiUniqueId encodeUniqueId(const MeetingPlace& place) {
  tuttiUniqueId id{};
  std::memcpy(id.internal, kMagic, sizeof kMagic);
  if (place.secretOfUser) id.internal[sizeof kMagic - 1] = kOfUser;
  std::memcpy(id.internal + kCommIdAt, place.commId.data(), place.commId.size());
  std::memcpy(id.internal + kSecretAt, place.secret.data(), place.secret.size());
  const std::string_view controlAddress = shorten(place.controlAddress, kControlAddressBytes);
  std::memcpy(id.internal + kControlAddressAt, controlAddress.data(), controlAddress.size());
  return id;
}

Result<MeetingPlace> decodeUniqueId(const tuttiUniqueId& id) {
  static const tuttiUniqueId kZero{};
  if (std::memcmp(&id, &kZero, sizeof id) == 0) {
    return invalidArgument(ErrorCode::UniqueIdInvalid,
                           "the unique id is all zero: it did not come from the rank that called tuttiGetUniqueId; "
                           "send all its 128 bytes to every rank");
  }
  if (std::memcmp(id.internal, kMagic, sizeof kMagic - 1) != 0) {
    return invalidArgument(
        ErrorCode::UniqueIdInvalid,
        "uniqueId has not the bytes that tuttiGetUniqueId made; send all its 128 bytes to every rank");
  }
  const char format = id.internal[sizeof kMagic - 1];
  if (format != kMagic[sizeof kMagic - 1] && format != kOfUser) {
    return invalidArgument(ErrorCode::UniqueIdInvalid, "the unique id was made by another version of Tutti (format ",
                           int{format}, ", here ", int{kMagic[sizeof kMagic - 1]}, ")");
  }
  MeetingPlace place;
  place.secretOfUser = format == kOfUser;
  std::memcpy(place.commId.data(), id.internal + kCommIdAt, place.commId.size());
  Secret::Raw raw;
  std::memcpy(raw.data(), id.internal + kSecretAt, raw.size());
  if (!place.secretOfUser) place.secret = Secret(raw);
  wipe(raw);
  const std::string_view field(id.internal + kControlAddressAt, kControlAddressBytes);
  const size_t end = std::min(field.find('\0'), field.size());
  if (field.find_first_not_of('\0', end) != std::string_view::npos) {
    return invalidArgument(ErrorCode::UniqueIdInvalid, "the unique id is damaged: there are bytes behind its address");
  }
  place.controlAddress = field.substr(0, end);
  // An address on an interface that only the other host has is not an error of the id.
  const Status parsed = asStatus(parseControlAddress(place.controlAddress));
  if (parsed.code() == tuttiInvalidArgument) {
    return invalidArgument(ErrorCode::UniqueIdInvalid, "the unique id is damaged: ", parsed.message());
  }
  return place;
}

namespace {

/// The id with its secret hidden, or shown again.  A communicator's name is random, so that no two ids share a pad.
void hideSecret(const Secret& shared, tuttiUniqueId* id) {
  const std::string_view name(id->internal, kSecretAt);
  const Secret pad = deriveSecret(shared, cat("pad of ", name));
  for (size_t i = 0; i < Secret::kBytes; ++i) {
    char& byte = id->internal[kSecretAt + i];
    byte = static_cast<char>(byte ^ static_cast<char>(pad.data()[i]));
  }
}

Mac macOfSealed(const Secret& shared, const tuttiUniqueId& hidden) {
  return hmacSha256(deriveSecret(shared, "sealed id"), {hidden.internal, sizeof hidden.internal});
}

}  // namespace

std::string sealUniqueId(const Secret& shared, const tuttiUniqueId& id) {
  tuttiUniqueId hidden = id;
  hideSecret(shared, &hidden);
  const Mac mac = macOfSealed(shared, hidden);
  std::string sealed(hidden.internal, sizeof hidden.internal);
  return sealed.append(reinterpret_cast<const char*>(mac.data()), mac.size());
}

Result<MeetingPlace> openSealedUniqueId(const Secret& shared, std::string_view sealed) {
  tuttiUniqueId id{};
  Mac mac{};
  if (sealed.size() != sizeof id.internal + mac.size())
    return remoteError(ErrorCode::Malformed, "a sealed unique id of ", sealed.size(), " bytes");
  std::memcpy(id.internal, sealed.data(), sizeof id.internal);
  std::memcpy(mac.data(), sealed.data() + sizeof id.internal, mac.size());
  if (!sameDigest(mac, macOfSealed(shared, id)))
    return remoteError(ErrorCode::Malformed, "a unique id that is not as its rank has sealed it");
  hideSecret(shared, &id);
  Result<MeetingPlace> place = decodeUniqueId(id);
  wipe(id.internal, sizeof id.internal);
  return place;
}

Result<tuttiUniqueId> openRendezvousPlace(Reach reach) {
  TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create(reach));
  MeetingPlace place;
  place.commId = randomBytes<CommId>();
  setOpenBeforeKnown(&place.commId, true);
  place.secret = Secret::random();
  place.controlAddress = session->controlAddress();
  session->serveRendezvous(place.commId, place.secret, place.controlAddress);
  TUTTI_TRY(keepRendezvous(std::move(session), place.commId));
  return encodeUniqueId(place);
}

/// The same for all places of one name that this process opens one after the other: whoever asks while one closes gets
/// that of the next.
static Secret secretForUser(const CommId& commId) {
  static const Secret ofProcess = Secret::random();
  return deriveSecret(ofProcess, {reinterpret_cast<const char*>(commId.data()), commId.size()});
}

/// A Session at these addresses that serves the place, and its secret to those who have to ask for it.
static Result<std::shared_ptr<Session>> serveAt(const std::vector<SocketAddress>& addresses,
                                                const MeetingPlace& place) {
  TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create(addresses));
  const Secret secret = place.secretOfUser ? secretForUser(place.commId) : place.secret;
  if (std::all_of(addresses.begin(), addresses.end(), isLoopback))
    TUTTI_TRY(session->servePlaceSecret(place.commId, place.secretOfUser ? secret : Secret()));
  session->serveRendezvous(place.commId, secret, portOfThisHost(addresses.front().port()));
  return session;
}

Status openRendezvousPlaceAt(const std::vector<SocketAddress>& addresses, const MeetingPlace& place,
                             Deadline deadline) {
  constexpr int64_t kClosingMs = 1000;  // for the rendezvous of the communicator before, which may have the same name
  const int port = addresses.front().port();
  const Deadline closed = Deadline::inMs(kClosingMs);
  for (;;) {
    Result<std::shared_ptr<Session>> session = serveAt(addresses, place);
    if (session.ok()) return keepRendezvous(std::move(*session), place.commId);
    if (session.status().code() != tuttiSystemError) return session.status();
    if (closed.passed()) TUTTI_TRY(findTwin(port, place, Deadline::inMs(kClosingMs)));
    if (deadline.passed()) return session.status();
    ::usleep(20'000);
  }
}

}  // namespace tutti
