// The exchange, on the connection of the asking host (A) to the serving one (S):
//   both: the greeting, version      then each end listens at a port of its own on each address that ranks would take
//   S: its addresses                 A dials and measures each while S echoes
//   A: "done", its addresses         S dials and measures each while A echoes
//   S: a line for each: "ok US GBPS ADDRESS" or "no ADDRESS why"
#include "tools/doctor/reach.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <sstream>
#include <thread>
#include <vector>

#include "src/base/text.hpp"
#include "src/control/session/interfaces.hpp"
#include "tools/doctor/talk.hpp"
#include "tutti/tutti.h"

namespace tutti::doctor {
namespace {

constexpr size_t kMostAddresses = 16;
constexpr int kAcceptMs = 50;

/// Listens on this host's addresses and echoes what comes, in a thread, while it lives.
class Echoes {
 public:
  Status open() {
    TUTTI_ASSIGN(const std::vector<SocketAddress> addresses, listenAddresses());
    for (const SocketAddress& address : addresses) {
      TUTTI_ASSIGN(Fd fd, listenOn(address));
      text_ += cat(text_.empty() ? "" : " ", boundTo(fd.get()).text());
      listening_.push_back(std::move(fd));
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }
  ~Echoes() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// "10.0.0.7:41234 [fd00::7]:41235".
  const std::string& text() const { return text_; }

 private:
  void run() {
    while (!stop_) {
      const Result<Fd> peer = acceptOne(listening_, kAcceptMs);
      if (peer.ok()) echo(peer->get());
    }
  }
  std::vector<Fd> listening_;
  std::string text_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Status greet(int fd) {
  TUTTI_TRY(sendLine(fd, cat(kGreeting, " ", TUTTI_VERSION_CODE)));
  TUTTI_ASSIGN(const std::string theirs, readLine(fd));
  if (!theirs.starts_with(cat(kGreeting, " "))) return remoteError("the other end is no tutti-doctor of this version");
  return {};
}

/// Addresses of the other host, as text.  What no rank would dial is left out: a stranger may have sent it.
std::vector<std::string> addressesIn(const std::string& line) {
  std::vector<std::string> addresses;
  for (const std::string& text : split(line, ' ')) {
    if (addresses.size() < kMostAddresses && parseAddress(text).ok()) addresses.push_back(text);
  }
  return addresses;
}

/// "ok US GBPS ADDRESS" or "no ADDRESS why".
std::string measured(const std::string& address) {
  const Result<SocketAddress> to = parseAddress(address);
  if (!to.ok()) return cat("no ", address, " ", to.status().message());
  const Result<Fd> fd = dial(*to);
  if (!fd.ok()) return cat("no ", address, " ", fd.status().message());
  const Result<Echoed> echoed = measure(fd->get());
  if (!echoed.ok()) return cat("no ", address, " ", echoed.status().message());
  char text[64];
  std::snprintf(text, sizeof text, "ok %.1f %.3f ", echoed->roundTripUs, echoed->GBps);
  return text + address;
}

std::string remedyFor(const std::string& why, const std::string& address) {
  const std::string ip = address.substr(0, address.rfind(':'));
  if (why.find("messages of 8 bytes pass") != std::string::npos) {
    return "MTUs differ on the way: give all interfaces and switches the same (ip link set NAME mtu 1500), or let "
           "ICMP \"fragmentation needed\" through";
  }
  if (why.find("refused") != std::string::npos || why.find("No route") != std::string::npos ||
      why.find("no answer") != std::string::npos) {
    return cat("let the hosts reach each other at all ports, on the host of ", ip,
               ": firewall-cmd --add-source=ADDRESS/24 --zone=trusted, or nft add rule inet filter input ip saddr "
               "ADDRESS/24 accept; or name another interface in TUTTI_SOCKET_IFNAME");
  }
  return "name another interface in TUTTI_SOCKET_IFNAME";
}

/// What a line of measured() says.  subject: "from here to" or "from there to".
Finding findingOf(const std::string& line, const std::string& direction) {
  std::istringstream in(line);
  std::string verdict, address, why;
  double us = 0, rate = 0;
  in >> verdict;
  if (verdict == "ok" && in >> us >> rate >> address) {
    char text[96];
    std::snprintf(text, sizeof text, "8 bytes there and back in %.1f us, large messages at %.2f GB/s", us, rate);
    return {Verdict::Fine, cat(direction, " ", address), text, ""};
  }
  in >> address;
  std::getline(in >> std::ws, why);
  return {Verdict::Broken, cat(direction, " ", address), why, remedyFor(why, address)};
}

Status serveOne(int fd) {
  TUTTI_TRY(greet(fd));
  Echoes echoes;
  TUTTI_TRY(echoes.open());
  TUTTI_TRY(sendLine(fd, echoes.text()));
  std::string theirs;
  for (int waits = 0;; ++waits) {  // the other end may take a step for each address
    Result<std::string> line = readLine(fd);
    if (!line.ok() && line.status().code() == tuttiTimeout && waits < static_cast<int>(kMostAddresses)) continue;
    if (!line.ok()) return line.status();
    theirs = *line;
    break;
  }
  for (const std::string& address : addressesIn(theirs)) TUTTI_TRY(sendLine(fd, measured(address)));
  return sendLine(fd, "end");
}

/// On all interfaces, so that any of them may be called.  Port 0: one that the system gives, the same for all.
Result<std::vector<Fd>> listenEverywhere(int port) {
  std::vector<Fd> listening;
  Status problem;
  for (const char* const any : {"0.0.0.0", "::"}) {
    const Result<std::vector<SocketAddress>> at = resolveHost(any, port);
    if (!at.ok()) return at.status();
    Result<Fd> fd = listenOn(at->front());
    if (!fd.ok()) {  // a host without IPv6
      problem = fd.status();
      continue;
    }
    port = boundTo(fd->get()).port();
    listening.push_back(std::move(*fd));
  }
  if (listening.empty()) return problem;
  return listening;
}

Result<std::vector<SocketAddress>> serverAddresses(const std::string& server) {
  if (server.empty()) return invalidArgument("--reach names no host");
  std::string host = server;
  int port = kServePort;
  const size_t colon = server.rfind(':');
  const bool bare = std::ranges::count(server, ':') > 1 && server.front() != '[';  // an IPv6 address
  if (colon != std::string::npos && !bare && server.back() != ']') {
    if (!parseNumber(server.substr(colon + 1), &port) || port < 1 || port > 65535) {
      return invalidArgument("'", server, "' is not HOST or HOST:PORT");
    }
    host = server.substr(0, colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return resolveHost(host, port);
}

/// To the first address that answers.
Result<Fd> call(const std::vector<SocketAddress>& addresses) {
  Status problem;
  for (const SocketAddress& address : addresses) {
    Result<Fd> fd = dial(address);
    if (fd.ok()) return fd;
    problem = systemError(address.text(), ": ", fd.status().message());
  }
  return problem;
}

Result<Findings> ask(int fd) {
  Findings findings;
  TUTTI_TRY(greet(fd));
  TUTTI_ASSIGN(const std::string theirs, readLine(fd));
  for (const std::string& address : addressesIn(theirs))
    findings.push_back(findingOf(measured(address), "from here to"));
  Echoes echoes;
  TUTTI_TRY(echoes.open());
  TUTTI_TRY(sendLine(fd, echoes.text()));
  for (int waits = 0; waits < static_cast<int>(kMostAddresses);) {
    const Result<std::string> line = readLine(fd);
    if (!line.ok() && line.status().code() != tuttiTimeout) return line.status();
    if (line.ok() && *line == "end") return findings;
    if (line.ok()) findings.push_back(findingOf(*line, "from there to"));
    if (!line.ok()) ++waits;
  }
  return timeoutError("the other host does not come to an end");
}

}  // namespace

Status serve(int port, bool once, const std::function<void(const std::string&)>& say) {
  TUTTI_ASSIGN(const std::vector<Fd> listening, listenEverywhere(port));
  const int at = boundTo(listening.front().get()).port();
  say(cat("waiting at port ", at, "; on the other host: tutti-doctor --reach THIS_HOST:", at));
  do {
    const Result<Fd> client = acceptOne(listening, -1);
    if (!client.ok()) continue;
    const Status status = serveOne(client->get());
    say(status.ok() ? "one host has asked; it has the findings" : cat("one that asked went away: ", status.message()));
  } while (!once);
  return {};
}

Findings checkReach(const std::string& server) {
  const Result<std::vector<SocketAddress>> addresses = serverAddresses(server);
  if (!addresses.ok()) return {{Verdict::Broken, server, addresses.status().message(), "give its address"}};
  const Result<Fd> fd = call(*addresses);
  if (!fd.ok()) {
    return {{Verdict::Broken, server, fd.status().message(),
             "start `tutti-doctor --serve` there; else a firewall is between"}};
  }
  Result<Findings> findings = ask(fd->get());
  if (findings.ok()) return std::move(*findings);
  return {{Verdict::Broken, server, findings.status().message(), "look at what tutti-doctor says there"}};
}

}  // namespace tutti::doctor
