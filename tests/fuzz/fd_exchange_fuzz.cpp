// Fuzzes the descriptor exchange: datagrams of strangers to a server, and of a server to one that fetches.
//
// The first byte says which, and the rest is cut into datagrams by bytes that say how long the next one is.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/control/session/fd_exchange.hpp"
#include "src/control/session/fd_wire.hpp"

using namespace tutti;

namespace {

const CommId kComm = {7};
const Secret kSecret = {9};

struct World {
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<FdServer> server;
  Fd listener;  // of a server that is not ours
  std::string itsName;

  World() {
    reactor = std::move(*Reactor::create());
    server = std::move(*FdServer::create(*reactor));
    server->admit(kComm, kSecret);
    if (!server->serve(kComm, "key", STDIN_FILENO).ok()) std::abort();
    itsName = "tutti-fuzz-" + std::to_string(::getpid());
    listener.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address;
    const socklen_t bytes = fdwire::abstractAddress(itsName, &address);
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) std::abort();
    if (::listen(listener.get(), 16) != 0) std::abort();
  }
  void turn() {
    for (int i = 0; i < 3; ++i) reactor->dispatch(reactor->wait(0));
  }
};

Fd connectTo(const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t bytes = fdwire::abstractAddress(name, &address);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) fd.reset();
  return fd;
}

template <class Say>
void eachDatagram(std::string_view rest, Say say) {
  while (!rest.empty()) {
    const size_t bytes = std::min<size_t>(static_cast<unsigned char>(rest[0]) * 5, rest.size() - 1);
    say(rest.substr(1, bytes));
    rest.remove_prefix(1 + bytes);
  }
}

/// Nobody who has not proven the secret gets a descriptor.
void askServer(World& world, std::string_view rest) {
  const Fd stranger = connectTo(world.server->name());
  if (!stranger.valid()) return;
  world.turn();
  eachDatagram(rest, [&](std::string_view datagram) {
    (void)::send(stranger.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL);
    world.turn();
  });
  char text[256];
  alignas(cmsghdr) char control[256] = {};
  iovec part{text, sizeof text};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  for (;;) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(stranger.get(), &message, 0) <= 0) break;
    if (CMSG_FIRSTHDR(&message) != nullptr) std::abort();
  }
}

/// One that fetches from a server without the secret gets an error, and no descriptor.
void answerFetch(World& world, std::string_view rest) {
  FdFetch fetch(*world.reactor, {world.itsName, kComm, kSecret, "key"}, [] {});
  (void)fetch.poll();
  const Fd taken(::accept4(world.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!taken.valid()) return;
  eachDatagram(rest, [&](std::string_view datagram) {
    (void)::send(taken.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL);
    world.turn();
    const Result<Fd> got = fetch.poll();
    if (got.ok() && got->valid()) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const world = new World;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? askServer(*world, rest) : answerFetch(*world, rest);
  world->turn();
  return 0;
}
