// Which congestion control the sockets of one host have, by what is sent.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>

#include "src/base/fd.hpp"
#include "transport/tcp/pace.hpp"

using namespace tutti;
using namespace tutti::tcp;

namespace {

std::string controlOf(int fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  REQUIRE(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0);
  return name;
}

/// A socket with this control; none where the kernel has or allows none of that name.
Fd socketWith(const std::string& control) {
  Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(fd.get() >= 0);
  const auto bytes = static_cast<socklen_t>(control.size());
  return ::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, control.data(), bytes) == 0 ? std::move(fd) : Fd();
}

}  // namespace

TEST_CASE("inside a host large messages leave BBR, and rows of small ones go back to it") {
  const Fd fd = socketWith("bbr");
  if (fd.get() < 0) {
    WARN("this kernel has no BBR: nothing to see here");
    return;
  }
  Pace pace(fd.get(), true);
  pace.expect(false);
  CHECK(controlOf(fd.get()) == "bbr");
  pace.expect(true);
  CHECK(controlOf(fd.get()) == "reno");
  for (int i = 0; i < 20; ++i) pace.expect(false);
  pace.expect(true);
  CHECK(controlOf(fd.get()) == "reno");
  for (int i = 0; i < 100; ++i) pace.expect(false);
  CHECK(controlOf(fd.get()) == "bbr");
}

TEST_CASE("between hosts, and with any other control, sockets stay as the system has them") {
  const Fd reno = socketWith("reno");
  Pace pace(reno.get(), true);
  for (int i = 0; i < 100; ++i) pace.expect(i % 2 == 0);
  CHECK(controlOf(reno.get()) == "reno");
  const Fd bbr = socketWith("bbr");
  if (bbr.get() < 0) return;
  Pace far(bbr.get(), false);
  far.expect(true);
  CHECK(controlOf(bbr.get()) == "bbr");
}
