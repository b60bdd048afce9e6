// The relay between real sockets.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <thread>

#include "src/base/clock.hpp"
#include "src/control/session/frame.hpp"
#include "tools/chaos/relay.hpp"

using namespace tutti;
using namespace tutti::chaos;

namespace {

constexpr int kPatienceMs = 20'000;

Fd listenOn(SocketAddress* address) {
  *address = *parseAddress("127.0.0.1:1");
  address->setPort(0);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(fd.get(), address->raw(), address->bytes) == 0);
  REQUIRE(::listen(fd.get(), 16) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address->storage), &address->bytes) == 0);
  return fd;
}

bool ready(int fd, short events, int ms = kPatienceMs) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, ms) > 0;
}

/// A relay on a thread, a listener behind it, and a way to command it.
class Between {
 public:
  explicit Between(Misdeeds misdeeds, std::set<Purpose> only = {}, size_t most = 0) {
    SocketAddress target;
    target_ = listenOn(&target);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    commandsIn_ = Fd(ends[0]);
    commandsOut_ = Fd(ends[1]);
    RelayOptions options;
    options.listen = *parseAddress("127.0.0.1:1");
    options.listen.setPort(0);
    options.to = target;
    options.misdeeds = misdeeds;
    options.only = std::move(only);
    options.most = most;
    options.commands = {commandsIn_.get()};
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    auto made = Relay::open(std::move(options));
    REQUIRE(made.ok());
    relay_ = std::move(*made);
    thread_ = std::thread([this] { status_ = relay_->run(); });
  }
  ~Between() {
    command("quit");
    thread_.join();
    CHECK(status_.ok());
  }

  void command(const std::string& line) {
    REQUIRE(::write(commandsOut_.get(), (line + "\n").data(), line.size() + 1) > 0);
  }
  /// Both ends of a connection through it.
  std::pair<Fd, Fd> connect() {
    Fd dialed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(dialed.get(), relay_->address().raw(), relay_->address().bytes) == 0);
    REQUIRE(ready(target_.get(), POLLIN));
    return {std::move(dialed), Fd(::accept(target_.get(), nullptr, nullptr))};
  }
  /// Waits for a line of its log with this in it.
  bool says(const std::string& part) {
    for (const Deadline deadline = Deadline::inMs(kPatienceMs); !deadline.passed(); ::usleep(1000)) {
      const std::lock_guard lock(mutex_);
      if (std::any_of(lines_.begin(), lines_.end(), [&](const auto& l) { return l.find(part) != std::string::npos; })) {
        return true;
      }
    }
    return false;
  }
  const SocketAddress& address() const { return relay_->address(); }

 private:
  Fd target_, commandsIn_, commandsOut_;
  std::unique_ptr<Relay> relay_;
  std::thread thread_;
  Status status_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::vector<char> chars(size_t bytes) {
  std::vector<char> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 31 + i / 509);
  return out;
}

void sendAll(int fd, const std::vector<char>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

/// What comes until the end, an error, or `most` bytes; *error is its errno, 0 at an end.
std::vector<char> receiveAll(int fd, size_t most, int* error) {
  std::vector<char> out;
  char bytes[65536];
  *error = 0;
  while (out.size() < most && ready(fd, POLLIN)) {
    const ssize_t n = ::recv(fd, bytes, std::min(sizeof bytes, most - out.size()), 0);
    if (n < 0) *error = errno;
    if (n <= 0) break;
    out.insert(out.end(), bytes, bytes + n);
  }
  return out;
}

}  // namespace

TEST_CASE("bytes go both ways unchanged, and ends as ends") {
  for (const Misdeeds& misdeeds : {Misdeeds{}, Misdeeds{.splitBytes = 3000},
                                   Misdeeds{.jitterMs = 2, .splitBytes = 20'000}, Misdeeds{.coalesceBytes = 100'000}}) {
    Between relay(misdeeds);
    auto [a, b] = relay.connect();
    const auto there = chars(700'000), back = chars(300'001);
    std::thread sends([&, fd = a.get()] {
      sendAll(fd, there);
      ::shutdown(fd, SHUT_WR);
    });
    int error = 0;
    CHECK(receiveAll(b.get(), SIZE_MAX, &error) == there);
    CHECK(error == 0);
    sends.join();
    sendAll(b.get(), back);  // the other direction outlives the first one's end
    b.reset();
    CHECK(receiveAll(a.get(), SIZE_MAX, &error) == back);
    CHECK(error == 0);
  }
}

TEST_CASE("the same bytes are damaged in every run of a seed, and the log names them") {
  const auto input = chars(400'000);
  std::vector<std::vector<char>> runs;
  for (int run = 0; run < 2; ++run) {
    Between relay({.seed = 11, .flipEvery = 50'000});
    auto [a, b] = relay.connect();
    std::thread sends([&, fd = a.get()] { sendAll(fd, input); });
    int error = 0;
    runs.push_back(receiveAll(b.get(), input.size(), &error));
    sends.join();
    const auto wrong = std::mismatch(input.begin(), input.end(), runs.back().begin()).first - input.begin();
    CHECK(relay.says("connection 1 forward byte " + std::to_string(wrong) + ": bit "));
  }
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] != input);
}

TEST_CASE("a reset is a reset to both ends") {
  Between relay({.seed = 1, .resetEvery = 100'000}, {}, 1);
  auto [a, b] = relay.connect();
  std::thread sends([&, fd = a.get()] { sendAll(fd, chars(1'000'000)); });
  int error = 0;
  const auto came = receiveAll(b.get(), SIZE_MAX, &error);
  CHECK(error == ECONNRESET);
  CHECK(came.size() < 200'000);
  sends.join();
  (void)receiveAll(a.get(), SIZE_MAX, &error);
  CHECK((error == ECONNRESET || error == 0));  // 0: the failed send has taken the error
  CHECK(relay.says(": reset"));
  // That was the only one.
  auto [c, d] = relay.connect();
  std::thread more([&, fd = c.get()] { sendAll(fd, chars(1'000'000)); });
  CHECK(receiveAll(d.get(), 1'000'000, &error).size() == 1'000'000);
  more.join();
}

TEST_CASE("what is cut stands still until it is healed") {
  Between relay({});
  auto [a, b] = relay.connect();
  sendAll(a.get(), chars(10));
  int error = 0;
  CHECK(receiveAll(b.get(), 10, &error).size() == 10);
  relay.command("cut");
  REQUIRE(relay.says("command: cut"));
  sendAll(a.get(), chars(1000));
  CHECK(!ready(b.get(), POLLIN, 100));
  relay.command("heal");
  CHECK(receiveAll(b.get(), 1000, &error) == chars(1000));
}

TEST_CASE("commands reset, close and refuse, and others are answered with the list") {
  Between relay({});
  auto [a, b] = relay.connect();
  relay.command("dance");
  CHECK(relay.says("'dance' is no command; these are: cut, heal, reset, close, refuse, quit"));
  relay.command("close");
  int error = 0;
  CHECK(receiveAll(b.get(), SIZE_MAX, &error).empty());
  CHECK(error == 0);
  relay.command("reset");
  CHECK(receiveAll(a.get(), SIZE_MAX, &error).empty());
  CHECK(error == ECONNRESET);
  relay.command("refuse");
  REQUIRE(relay.says("command: refuse"));
  Fd dialed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(dialed.get(), relay.address().raw(), relay.address().bytes) == 0);
  CHECK(receiveAll(dialed.get(), SIZE_MAX, &error).empty());
  CHECK(error == ECONNRESET);
}

TEST_CASE("connections of Tutti's are known by their first message, and only those asked for are touched") {
  const auto hello = [](Purpose purpose) {
    const DialerProof proof({}, {purpose, {}, 0, purpose == Purpose::Meet ? -1 : 1, 2, 0}, {});
    std::string frame;
    appendFrame(&frame, proof.hello());
    return std::vector<char>(frame.begin(), frame.end());
  };
  Between relay({.seed = 4, .flipEvery = 1}, {Purpose::Stream});
  int error = 0;
  for (const Purpose purpose : {Purpose::Meet, Purpose::Overlay, Purpose::Stream}) {
    auto [a, b] = relay.connect();
    const auto message = hello(purpose);
    sendAll(a.get(), {message.begin(), message.begin() + 7});
    sendAll(a.get(), {message.begin() + 7, message.end()});
    const auto came = receiveAll(b.get(), message.size(), &error);
    CHECK((came == message) == (purpose != Purpose::Stream));
  }
  auto [a, b] = relay.connect();
  const std::vector<char> other(5000, 'x');
  sendAll(a.get(), other);
  CHECK(receiveAll(b.get(), other.size(), &error) == other);
}

TEST_CASE("without a target a connection that nobody has redirected is refused with the reason") {
  RelayOptions options;
  options.listen = *parseAddress("127.0.0.1:1");
  options.listen.setPort(0);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Fd in(ends[0]), out(ends[1]);
  options.commands = {in.get()};
  std::string said;
  options.log = [&](const std::string& line) { said += line; };
  auto relay = Relay::open(std::move(options));
  REQUIRE(relay.ok());
  std::thread runs([&] { CHECK((*relay)->run().ok()); });
  Fd dialed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(dialed.get(), (*relay)->address().raw(), (*relay)->address().bytes) == 0);
  int error = 0;
  CHECK(receiveAll(dialed.get(), SIZE_MAX, &error).empty());
  REQUIRE(::write(out.get(), "quit\n", 5) == 5);
  runs.join();
  CHECK(said.find("nothing has redirected it to here") != std::string::npos);
}

TEST_CASE("an address that is taken is an error that names it") {
  SocketAddress taken;
  const Fd listener = listenOn(&taken);
  RelayOptions options;
  options.listen = taken;
  const auto relay = Relay::open(std::move(options));
  REQUIRE(!relay.ok());
  CHECK(relay.status().message().find(taken.text()) != std::string::npos);
}
