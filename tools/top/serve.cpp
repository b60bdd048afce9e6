#include "tools/top/serve.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "src/base/fd.hpp"
#include "src/base/text.hpp"

namespace tutti::top {
namespace {

constexpr int kPatienceS = 5;
constexpr size_t kMostLineBytes = 4096;
constexpr int kProtocol = 2;  // of ncclras

bool is(const std::string& line, const char* command) { return strcasecmp(line.c_str(), command) == 0; }
bool begins(const std::string& line, const char* command) {
  return strncasecmp(line.c_str(), command, std::strlen(command)) == 0;
}

bool sendAll(int fd, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

void converse(int fd, Conversation conversation) {
  const timeval patience{kPatienceS, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  std::string rest;
  char piece[1024];
  while (!conversation.done() && rest.size() < kMostLineBytes) {
    const size_t end = rest.find('\n');
    if (end == std::string::npos) {
      const ssize_t n = recv(fd, piece, sizeof piece, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      rest.append(piece, static_cast<size_t>(n));
      continue;
    }
    std::string line = rest.substr(0, end);
    rest.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!sendAll(fd, conversation.onLine(line))) return;
  }
}

Result<sockaddr_in> parseAddress(const std::string& at) {
  const size_t colon = at.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : at.substr(0, colon);
  int port = 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const bool good = parseNumber(colon == std::string::npos ? at : at.substr(colon + 1), &port) && port >= 0 &&
                    port <= 65535 && inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1;
  if (!good) return invalidUsage("'", at, "' is neither PORT nor ADDRESS:PORT, such as 28028 or 127.0.0.1:28028");
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

std::string Conversation::status(bool verbose) {
  done_ = true;
  const Result<Snapshot> now = snapshot_();
  if (!now.ok()) return cat("ERROR: ", now.status().message(), "\n");
  return json_ ? rasJson(*now) : rasText(*now, verbose);
}

std::string Conversation::page(const std::string& head) {
  done_ = true;
  if (head.find(" /metrics") == std::string::npos)
    return "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\nonly /metrics is here\n";
  const Result<Snapshot> now = snapshot_();
  if (!now.ok()) return cat("HTTP/1.0 500 Error\r\nContent-Type: text/plain\r\n\r\n", now.status().message(), "\n");
  return cat("HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n", prometheus(*now));
}

std::string Conversation::onLine(const std::string& line) {
  if (http_) return line.empty() ? page(request_) : "";  // headers
  if (begins(line, "GET ")) {
    http_ = true;
    request_ = line;
    return "";
  }
  if (begins(line, "CLIENT PROTOCOL ")) return cat("SERVER PROTOCOL ", kProtocol, "\n");
  if (begins(line, "TIMEOUT ")) return "OK\n";
  if (is(line, "SET FORMAT json") || is(line, "SET FORMAT text")) {
    json_ = is(line, "SET FORMAT json");
    return "OK\n";
  }
  if (is(line, "STATUS")) return status(false);
  if (is(line, "VERBOSE STATUS")) return status(true);
  return cat("ERROR: unknown command ", line, "; there are STATUS, VERBOSE STATUS, SET FORMAT text|json, TIMEOUT N\n");
}

Status serve(const std::string& at, const std::function<Result<Snapshot>()>& snapshot,
             const std::function<void(int port)>& onReady) {
  TUTTI_ASSIGN(sockaddr_in address, parseAddress(at));
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  (void)setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || bind(listener.get(), generic, bytes) != 0 || listen(listener.get(), 16) != 0 ||
      getsockname(listener.get(), generic, &bytes) != 0)
    return systemError("cannot listen at ", at, ": ", std::strerror(errno));
  onReady(ntohs(address.sin_port));
  for (;;) {
    const Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid())
      converse(fd.get(), Conversation(snapshot));
    else if (errno != EINTR && errno != ECONNABORTED && errno != EMFILE)
      return systemError("cannot accept a connection: ", std::strerror(errno));
  }
}

}  // namespace tutti::top
