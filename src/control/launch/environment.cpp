#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/control/launch/launch.hpp"
#include "src/control/session/place_addresses.hpp"

namespace tutti {
namespace launch {
namespace {

constexpr int64_t kMostRanks = 1 << 24;

/// Process-wide because the environment is: counts the calls of launchInfo.
std::atomic<uint64_t> generations{0};

/// The secret and name of a communicator whose launcher hands out none.  The name depends on nothing that ranks may
/// have set differently by mistake, number of ranks and secret: they meet, and hear how they differ.
MeetingPlace agreedPlace(const FixedPlace& fixed, int port) {
  std::string given = configText("TUTTI_SECRET");
  const Secret base = deriveSecret({}, given.empty() ? "job " + fixed.identity : "secret " + given);
  const std::string label = cat("launch ", fixed.launcher, " ", fixed.identity, " port ", port, " call ", generation());
  MeetingPlace place;
  place.secretOfUser = given.empty() && fixed.oneHost;
  if (!place.secretOfUser) place.secret = deriveSecret(base, label);
  place.commId = deriveCommId({}, label);
  setOpenBeforeKnown(&place.commId, false);
  if (given.empty() && !fixed.oneHost && fixed.place.rank == 0) warnOfOpenPlace(cat(fixed.hosts.front(), ":", port));
  wipe(given);
  return place;
}

/// How rank 0 reaches its own place: by the loopback address first.  Another one says that other hosts can, too.
ControlAddress addressesOfOwnPlace(std::vector<SocketAddress> addresses) {
  for (SocketAddress& address : addresses) {
    if (const std::string text = address.text(); text.starts_with("0.0.0.0:"))
      address = *parseAddress(cat("127.0.0.1:", address.port()));
    if (const std::string text = address.text(); text.starts_with("[::]:"))
      address = *parseAddress(cat("[::1]:", address.port()));
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const SocketAddress& a, const SocketAddress& b) { return isLoopback(a) > isLoopback(b); });
  const auto beyond = std::find_if_not(addresses.begin(), addresses.end(), isLoopback);
  // An id has room for few: one of each kind.
  if (beyond != addresses.end() && beyond - addresses.begin() > 1) addresses.erase(addresses.begin() + 1, beyond);
  return makeControlAddress(addresses, kControlAddressMostBytes);
}

Result<std::vector<SocketAddress>> resolveAny(const std::vector<std::string>& hosts, int port) {
  std::vector<SocketAddress> all;
  Status problem;
  for (const std::string& host : hosts) {
    Result<std::vector<SocketAddress>> found = resolveHost(host, port);
    if (found.ok()) all.insert(all.end(), found->begin(), found->end());
    if (!found.ok() && problem.ok()) problem = found.status();
  }
  if (all.empty()) return problem;
  return all;
}

}  // namespace

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<int64_t> number(const char* name, int64_t least, int64_t most) {
  const std::string value = text(name);
  int64_t parsed = 0;
  const char* end = value.data() + value.size();
  const auto [next, error] = std::from_chars(value.data(), end, parsed);
  if (value.empty()) return invalidUsage(ErrorCode::LauncherVariables, name, " is not set");
  if (error != std::errc() || next != end)
    return invalidUsage(ErrorCode::LauncherVariables, name, "='", value, "' is not a whole number");
  if (parsed < least || parsed > most) {
    return invalidUsage(ErrorCode::LauncherVariables, name, "=", parsed, " is outside ", least, "..", most,
                        "; have the launcher set it, or start with tutti-run");
  }
  return parsed;
}

Result<Place> place(const char* launcher, const char* rankName, const char* sizeName) {
  for (const char* name : {rankName, sizeName}) {
    if (text(name).empty()) {
      const char* other = name == rankName ? sizeName : rankName;
      return invalidUsage(ErrorCode::LauncherVariables, launcher, ": ", other, " is set but ", name, " is not");
    }
  }
  TUTTI_ASSIGN(const int64_t size, number(sizeName, 1, kMostRanks));
  TUTTI_ASSIGN(const int64_t rank, number(rankName, 0, kMostRanks - 1));
  if (rank >= size)
    return invalidUsage(ErrorCode::LauncherVariables, rankName, "=", rank, " is not below ", sizeName, "=", size,
                        "; number the ranks from 0");
  return Place{static_cast<int>(rank), static_cast<int>(size)};
}

Result<tuttiUniqueId> publishedId(const char* launcher, const std::string& hex) {
  std::vector<unsigned char> bytes;
  tuttiUniqueId id{};
  if (!fromHex(hex, &bytes) || bytes.size() != sizeof id)
    return systemError(ErrorCode::LauncherBroken, launcher, ": rank 0 published no unique id");
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

Status checkSecretOf(const std::string& where, bool oneHost) {
  if (oneHost || configText("TUTTI_ENCRYPT") != "1" || !configText("TUTTI_SECRET").empty()) return {};
  return invalidUsage(ErrorCode::NotEncrypted,
                      "TUTTI_ENCRYPT=1 needs a secret, and ranks of several hosts that meet at ", where,
                      " have none: set TUTTI_SECRET alike on all ranks (docs/security.md)");
}

bool allRanksHere(int nRanks) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    if (text(name) == std::to_string(nRanks)) return true;
  return false;
}

uint64_t generation() { return generations.load(); }

Result<LaunchInfo> meetAt(const FixedPlace& fixed, Deadline deadline) {
  LaunchInfo info{fixed.launcher, fixed.place.rank, fixed.place.nRanks, {}};
  if (info.nRanks == 1) return info;
  TUTTI_ASSIGN(const int64_t portSet, configInteger("TUTTI_PORT"));
  const int port = portSet != 0 ? static_cast<int>(portSet) : fixed.port;
  if (port < 1 || port > 65535)
    return invalidUsage(ErrorCode::LauncherVariables, "port ", port, " is outside 1..65535; set TUTTI_PORT");
  TUTTI_TRY(checkSecretOf(cat(fixed.hosts.front(), ":", port), fixed.oneHost));
  MeetingPlace rendezvous = agreedPlace(fixed, port);
  if (info.rank == 0) {
    constexpr int64_t kPatienceNs = 5'000'000'000;  // for a port to become free
    const Deadline patience = Deadline::at(std::min(deadline.ns(), nowNs() + kPatienceNs));
    const Reach reach = fixed.oneHost ? Reach::Host : Reach::Network;
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, placeAddresses(fixed.hosts, port, reach));
    const Status opened = openRendezvousPlaceAt(addresses, rendezvous, patience);
    if (!opened.ok()) {
      const bool taken = opened.code() == tuttiSystemError;
      return Status(opened.code(), cat("rank 0 cannot open the rendezvous: ", opened.text(),
                                       taken ? "; TUTTI_PORT chooses another port, the same on all ranks" : ""));
    }
    rendezvous.controlAddress = addressesOfOwnPlace(addresses);
  } else if (fixed.oneHost && !isThisHost(fixed.hosts.front())) {
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, loopbackAddresses(port));
    rendezvous.controlAddress = makeControlAddress(addresses, kControlAddressMostBytes);
  } else {
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, resolveAny(fixed.hosts, port));
    rendezvous.controlAddress = makeControlAddress(addresses, kControlAddressMostBytes);
  }
  info.id = encodeUniqueId(rendezvous);
  return info;
}

Found tuttiRun() {
  std::string idText = text("TUTTI_UNIQUE_ID");
  if (idText.empty() && text("TUTTI_RANK").empty() && text("TUTTI_NRANKS").empty()) return std::optional<LaunchInfo>();
  TUTTI_ASSIGN(const Place here, place("tutti-run", "TUTTI_RANK", "TUTTI_NRANKS"));
  LaunchInfo info{"tutti-run", here.rank, here.nRanks, {}};
  if (here.nRanks == 1 && idText.empty()) return std::optional(info);
  if (idText.empty())
    return invalidUsage(
        ErrorCode::LauncherVariables,
        "tutti-run: TUTTI_RANK and TUTTI_NRANKS are set but TUTTI_UNIQUE_ID is not; start the ranks with "
        "tutti-run, which sets all three");
  std::vector<unsigned char> bytes;
  if (!fromHex(idText, &bytes) || bytes.size() != sizeof info.id) {
    return invalidUsage(ErrorCode::LauncherVariables, "TUTTI_UNIQUE_ID is not ", 2 * sizeof info.id,
                        " hexadecimal digits; start the ranks with tutti-run, which sets it");
  }
  std::memcpy(&info.id, bytes.data(), sizeof info.id);
  wipe(bytes);
  wipe(idText);
  if (Result<MeetingPlace> rendezvous = decodeUniqueId(info.id); !rendezvous.ok()) {
    return invalidUsage(ErrorCode::LauncherVariables, "TUTTI_UNIQUE_ID: ", rendezvous.status().text());
  }
  return std::optional(info);
}

Found torchrun(Deadline deadline) {
  const bool rank = !text("RANK").empty(), size = !text("WORLD_SIZE").empty(), address = !text("MASTER_ADDR").empty();
  // RANK alone may be anybody's variable.
  if (static_cast<int>(rank) + static_cast<int>(size) + static_cast<int>(address) < 2) {
    return std::optional<LaunchInfo>();
  }
  FixedPlace fixed;
  fixed.launcher = "torchrun";
  TUTTI_ASSIGN(fixed.place, place("torchrun", "RANK", "WORLD_SIZE"));
  if (fixed.place.nRanks > 1) {
    if (!address)
      return invalidUsage(
          ErrorCode::LauncherVariables,
          "torchrun: RANK and WORLD_SIZE are set but MASTER_ADDR is not; set it to the address of rank 0's "
          "host");
    fixed.hosts = {text("MASTER_ADDR")};
    fixed.oneHost = isThisHost(fixed.hosts.front()) || allRanksHere(fixed.place.nRanks);
    TUTTI_ASSIGN(const int64_t ownPort, configInteger("TUTTI_PORT"));
    if (ownPort == 0 || !text("MASTER_PORT").empty()) {
      TUTTI_ASSIGN(const int64_t port, number("MASTER_PORT", 1, 65534));
      // The agent's own store listens at the port itself.
      fixed.port = static_cast<int>(port) + (text("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
    }
  }
  fixed.identity = cat(text("MASTER_ADDR"), ":", text("MASTER_PORT"), " run ", text("TORCHELASTIC_RUN_ID"), " restart ",
                       text("TORCHELASTIC_RESTART_COUNT"), " user ", geteuid());
  TUTTI_ASSIGN(const LaunchInfo info, meetAt(fixed, deadline));
  return std::optional(info);
}

}  // namespace launch

Result<LaunchInfo> launchInfo(Deadline deadline) {
  ++launch::generations;
  launch::Found found = launch::tuttiRun();
  if (found.ok() && !found->has_value()) found = launch::torchrun(deadline);
  if (found.ok() && !found->has_value()) found = launch::pmix(deadline);
  if (found.ok() && !found->has_value()) found = launch::pmi(deadline);
  if (found.ok() && !found->has_value()) found = launch::slurm(deadline);
  if (!found.ok()) return found.status();
  if (found->has_value()) {
    TUTTI_DEBUG("bootstrap", "started by ", (*found)->launcher, " as rank ", (*found)->rank, " of ", (*found)->nRanks);
    return std::move(**found);
  }
  return LaunchInfo{"none", 0, 1, {}};
}

}  // namespace tutti
