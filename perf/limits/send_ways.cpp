// send_ways: what one host gets through to another by send(), MSG_ZEROCOPY and io_uring, over one or more sockets.
//
//   send_ways --serve PORT                  on the one host: takes what comes, until it is ended
//   send_ways HOST_ADDRESS PORT [-t MS]     on the other: a line per way, size and number of sockets
//
// A message is cut into equal parts, one for each socket, and four messages are under way; the memory of one is used
// again when the system has said that it may be.  "cpu": processor time of this process (sender) and of the other
// (receiver), ns per byte.  "copied": parts of MSG_ZEROCOPY that the system has copied after all, as it does for every
// packet that stays on the machine.
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "perf/limits/measure.hpp"
#include "perf/limits/ring.hpp"

namespace tutti::limits {
namespace {

constexpr size_t kDepth = 4;
constexpr size_t kReadBytes = 256 << 10;
enum class Way { Send, ZeroCopy, Ring, RingZeroCopy };
constexpr std::pair<Way, const char*> kWays[] = {
    {Way::Send, "send"}, {Way::ZeroCopy, "zerocopy"}, {Way::Ring, "io_uring"}, {Way::RingZeroCopy, "io_uring_zc"}};

double cpuUs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "send_ways: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in addressOf(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    std::fprintf(stderr, "send_ways: '%s' is not an IPv4 address\n", host);
    std::exit(2);
  }
  return address;
}

/// What the other end says when all has come.
struct Answer {
  uint64_t bytes = 0;
  double cpuUs = 0;
};

// ---- The receiver.

/// Takes the sockets of one run (the first byte says how many), reads until all have ended, and answers on the first.
void serveOne(int listener) {
  std::vector<pollfd> sockets;
  for (size_t n = 1; sockets.size() < n;) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) fail("accept");
    char count = 0;
    if (recv(fd, &count, 1, MSG_WAITALL) != 1) fail("recv");
    n = static_cast<size_t>(count);
    sockets.push_back({fd, POLLIN, 0});
  }
  std::vector<char> memory(kReadBytes);
  Answer answer{0, -cpuUs()};
  for (size_t open = sockets.size(); open > 0;) {
    if (poll(sockets.data(), sockets.size(), -1) < 0) fail("poll");
    for (pollfd& s : sockets) {
      if ((s.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t n = recv(s.fd, memory.data(), memory.size(), MSG_DONTWAIT);
      if (n > 0) answer.bytes += static_cast<uint64_t>(n);
      if (n > 0 || (n < 0 && errno == EAGAIN)) continue;
      s.events = 0;
      s.fd = -s.fd - 1;  // poll() passes over it
      --open;
    }
  }
  answer.cpuUs += cpuUs();
  (void)send(-sockets[0].fd - 1, &answer, sizeof answer, MSG_NOSIGNAL);
  for (const pollfd& s : sockets) close(-s.fd - 1);
}

int serve(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = addressOf("0.0.0.0", port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 64) != 0)
    fail("listen");
  for (;;) serveOne(listener);
}

// ---- The sender.

struct Part {
  size_t left = 0;
  const char* at = nullptr;
  uint32_t notices = 0;  // that the system owes before the memory is free
};

class Sender {
 public:
  Sender(Way way, const sockaddr_in& to, size_t nSockets, size_t bytes) : way_(way), bytes_(bytes) {
    for (size_t i = 0; i < nSockets; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
      if (way == Way::ZeroCopy && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0) fail("SO_ZEROCOPY");
      if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fail("connect");
      const char count = static_cast<char>(nSockets);
      if (send(fd, &count, 1, MSG_NOSIGNAL) != 1) fail("send");
      sockets_.push_back({fd, 0, 0});
    }
    notices_.resize(nSockets);
    busy_.resize(nSockets);
    for (std::vector<char>& buffer : memory_) buffer.resize(bytes, 'x');
    for (std::vector<Part>& parts : parts_) parts.resize(nSockets);
  }
  ~Sender() {
    for (const pollfd& s : sockets_) close(s.fd);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// So many messages; all is sent and free when it returns.
  void run(size_t messages) {
    size_t begun = 0, done = 0;
    while (done < messages) {
      if (begun < messages && begun - done < kDepth) begin(begun++ % kDepth);
      for (size_t m = done; m < begun; ++m) push(m % kDepth);
      takeNotices();
      while (done < begun && isFree(done % kDepth)) ++done;
      if (begun - done == kDepth || begun == messages) rest(done, begun);
    }
  }
  Answer end() {
    for (const pollfd& s : sockets_) shutdown(s.fd, SHUT_WR);
    Answer answer;
    if (recv(sockets_[0].fd, &answer, sizeof answer, MSG_WAITALL) != sizeof answer) fail("recv of the answer");
    return answer;
  }
  size_t copied() const { return copied_; }

 private:
  void begin(size_t slot) {
    const size_t n = sockets_.size(), each = bytes_ / n;
    for (size_t i = 0; i < n; ++i) {
      parts_[slot][i] = {i + 1 == n ? bytes_ - each * (n - 1) : each, memory_[slot].data() + each * i, 0};
    }
  }
  bool isFree(size_t slot) const {
    return std::all_of(parts_[slot].begin(), parts_[slot].end(), [](const Part& p) { return p.left + p.notices == 0; });
  }
  /// A part leaves when those before it on its socket have.
  bool isFirst(size_t slot, size_t i) const { return order_[i].empty() || order_[i].front() == slot; }
  void push(size_t slot) {
    for (size_t i = 0; i < sockets_.size(); ++i) {
      Part& part = parts_[slot][i];
      const bool waits = part.left > 0 && std::find(order_[i].begin(), order_[i].end(), slot) == order_[i].end();
      if (waits) order_[i].push_back(slot);
      if (part.left > 0 && isFirst(slot, i)) pushPart(part, i);
      leave(i);
    }
  }
  void leave(size_t i) {
    while (!order_[i].empty() && parts_[order_[i].front()][i].left == 0) order_[i].erase(order_[i].begin());
  }
  void pushPart(Part& part, size_t i) {
    if (way_ == Way::Ring || way_ == Way::RingZeroCopy) {
      if (busy_[i] != nullptr) return;
      busy_[i] = &part;
      ring_.send(sockets_[i].fd, part.at, part.left, way_ == Way::RingZeroCopy, i);
      return;
    }
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (way_ == Way::ZeroCopy ? MSG_ZEROCOPY : 0);
    const ssize_t n = ::send(sockets_[i].fd, part.at, part.left, flags);
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS) fail("send");
    if (n <= 0) return;
    if (way_ == Way::ZeroCopy) {
      ++part.notices;
      notices_[i].push_back(&part);
    }
    part.at += n;
    part.left -= static_cast<size_t>(n);
  }
  void takeNotices() {
    if (way_ == Way::ZeroCopy) {
      for (size_t i = 0; i < sockets_.size(); ++i) takeErrors(i);
    } else if (way_ != Way::Send) {
      takeCompletions();
    }
  }
  void takeErrors(size_t i) {
    for (;;) {
      std::array<char, 128> control{};
      msghdr message{};
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      if (recvmsg(sockets_[i].fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
      const cmsghdr* header = CMSG_FIRSTHDR(&message);
      if (header == nullptr) return;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(header), sizeof error);
      const uint32_t n = error.ee_data - error.ee_info + 1;
      if ((error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) copied_ += n;
      for (uint32_t k = 0; k < n && !notices_[i].empty(); ++k) {
        --notices_[i].front()->notices;
        notices_[i].erase(notices_[i].begin());
      }
    }
  }
  void takeCompletions() {
    ring_.submit(false);
    ring_.completions([&](uint64_t i, int result, bool more, bool notice) {
      if (notice) {
        --notices_[i].front()->notices;
        notices_[i].erase(notices_[i].begin());
        return;
      }
      if (result < 0) {
        errno = -result;
        fail("io_uring");
      }
      Part& part = *busy_[i];
      busy_[i] = nullptr;
      part.at += result;
      part.left -= static_cast<size_t>(result);
      leave(i);
      if (!more) return;
      ++part.notices;
      notices_[i].push_back(&part);
    });
  }
  void rest(size_t done, size_t begun) {
    if (way_ == Way::Ring || way_ == Way::RingZeroCopy) {
      const bool any = std::any_of(busy_.begin(), busy_.end(), [](const Part* p) { return p != nullptr; }) ||
                       std::any_of(notices_.begin(), notices_.end(), [](const auto& n) { return !n.empty(); });
      if (any) ring_.submit(true);
      return;
    }
    bool full = false;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      bool unsent = false;
      for (size_t m = done; m < begun; ++m) unsent = unsent || parts_[m % kDepth][i].left > 0;
      sockets_[i].events = unsent ? POLLOUT : 0;  // notices show as POLLERR
      full = full || unsent || !notices_[i].empty();
    }
    if (full) (void)poll(sockets_.data(), sockets_.size(), 1);
  }

  const Way way_;
  const size_t bytes_;
  std::vector<pollfd> sockets_;
  std::array<std::vector<char>, kDepth> memory_;
  std::array<std::vector<Part>, kDepth> parts_;
  std::array<std::vector<size_t>, 16> order_;  // slots with something to send, by socket
  std::vector<std::vector<Part*>> notices_;    // owed, in order, by socket
  std::vector<Part*> busy_;                    // under way by io_uring, by socket
  size_t copied_ = 0;
  Ring ring_;
};

void measure(const std::pair<Way, const char*>& way, const sockaddr_in& to, size_t bytes, size_t nSockets, double ms) {
  Sender sender(way.first, to, nSockets, bytes);
  const size_t least = std::max<size_t>(kDepth, (4 << 20) / bytes);
  sender.run(least);
  double cpu = -cpuUs(), start = nowUs();
  size_t messages = 0;
  for (; nowUs() - start < ms * 1e3; messages += least) sender.run(least);
  cpu += cpuUs();
  const double us = nowUs() - start, sent = static_cast<double>(messages) * static_cast<double>(bytes);
  const Answer answer = sender.end();
  std::printf("%-12s %9zu %2zu sockets %8.3f GB/s  cpu %6.3f + %6.3f ns/B", way.second, bytes, nSockets,
              sent / us / 1e3, cpu * 1e3 / sent, answer.cpuUs * 1e3 / static_cast<double>(answer.bytes));
  if (way.first == Way::ZeroCopy) std::printf("  %zu copied", sender.copied());
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tutti::limits

int main(int argc, char** argv) {
  using namespace tutti::limits;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "--serve") return serve(std::atoi(words[1].c_str()));
  if (words.size() != 2 && !(words.size() == 4 && words[2] == "-t")) {
    std::fprintf(stderr, "usage: send_ways --serve PORT | send_ways ADDRESS PORT [-t MILLISECONDS]\n");
    return 2;
  }
  const sockaddr_in to = addressOf(words[0].c_str(), std::atoi(words[1].c_str()));
  const double ms = words.size() == 4 ? std::atof(words[3].c_str()) : 200;
  for (const size_t bytes : {size_t{64} << 10, size_t{256} << 10, size_t{1} << 20, size_t{4} << 20, size_t{16} << 20}) {
    for (const size_t nSockets : {1, 2, 4}) {
      for (const auto& way : kWays) {
        if (way.first >= Way::Ring && !Ring::has()) continue;
        measure(way, to, bytes, nSockets, ms);
      }
    }
  }
  return 0;
}
