// Descriptors and streams that a transport asks of its peers, between two ranks of one process.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/status.hpp"
#include "transport/services.hpp"

namespace tutti {

/// Both ranks live here, so a descriptor is handed over through a map.
class LocalDescriptors : public FdExchange {
 public:
  Status serve(const std::string& key, int fd) override {
    const std::lock_guard lock(mutex_);
    served_[key].reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return {};
  }
  void unserve(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    served_.erase(key);
  }
  PendingFd fetch(int peer, const std::string& key) override {
    return pendingBy<Fd>([=, this]() -> Result<Fd> {
      const std::lock_guard lock(mutex_);
      const auto found = served_.find(key);
      if (found == served_.end()) return remoteError(ErrorCode::Malformed, "probe rank ", peer, " serves no ", key);
      return Fd(fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0));
    });
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Fd> served_;
};

/// Connected loopback sockets, one end for each rank.
class LocalStreams : public StreamExchange {
 public:
  PendingFd open(int peer, StreamIndex index) override {
    return pendingBy<Fd>([=, this] { return endOf(peer, index); });
  }

 private:
  Result<Fd> endOf(int peer, StreamIndex index) {
    const std::lock_guard lock(mutex_);
    const auto parked = parked_.find({1 - peer, index});
    if (parked != parked_.end()) {
      Fd mine = std::move(parked->second);
      parked_.erase(parked);
      return mine;
    }
    TUTTI_ASSIGN(auto both, connectedPair());
    parked_[{peer, index}] = std::move(both[1]);
    return std::move(both[0]);
  }
  static Result<std::array<Fd, 2>> connectedPair() {
    const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* where = reinterpret_cast<sockaddr*>(&address);
    std::array<Fd, 2> both = {Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), Fd()};
    if (bind(listener.get(), where, bytes) != 0 || listen(listener.get(), 1) != 0 ||
        getsockname(listener.get(), where, &bytes) != 0 || connect(both[0].get(), where, bytes) != 0) {
      return errnoError(errno, ErrorCode::SocketRefused, "loopback for measuring tcp");
    }
    both[1].reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const int on = 1;
    for (const Fd& fd : both) {
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    }
    return both;
  }
  std::mutex mutex_;
  std::map<std::pair<int, StreamIndex>, Fd> parked_;  // by the rank whose end it is, and index
};

}  // namespace tutti
