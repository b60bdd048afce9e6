#include "perf/compare/control.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace tutti::compare {
namespace {

// A rank that spins in a library whose peer has died would stay for ever: leave as soon as the driver hangs up.
void leaveWithDriver(int fd) {
  pollfd p = {.fd = fd, .events = POLLRDHUP, .revents = 0};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
  _exit(3);
}

}  // namespace

Control::Control(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) throw std::runtime_error("control socket: bad path");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("control socket " + path + ": " + std::strerror(errno));
  }
  std::thread(leaveWithDriver, fd_).detach();
}

Control::~Control() {
  if (fd_ >= 0) shutdown(fd_, SHUT_WR);  // closed by the end of the process: the watching thread still polls it
}

std::string Control::readLine() {
  for (;;) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t got = read(fd_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "quit";
    pending_.append(buffer, static_cast<size_t>(got));
  }
}

void Control::writeLine(std::string_view line) {
  std::string text(line);
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  text += '\n';
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = send(fd_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // the driver is gone; the next readLine says so
    done += static_cast<size_t>(put);
  }
}

std::string toHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string fromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return bytes;
}

}  // namespace tutti::compare
