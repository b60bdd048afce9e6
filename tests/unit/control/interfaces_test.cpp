#include <catch2/catch.hpp>

#include "src/control/session/interfaces.hpp"

using namespace tutti;

namespace {

InterfaceAddress interface(const std::string& name, const std::string& address, bool running = true) {
  InterfaceAddress a;
  a.interface = name;
  a.address = *parseAddress(address);
  a.address.setPort(0);
  a.loopback = name == "lo";
  a.running = running;
  return a;
}

std::string chosen(const std::vector<InterfaceAddress>& all, const std::string& names, const std::string& family = "") {
  const Result<std::vector<SocketAddress>> addresses = chooseAddresses(all, names, family);
  return addresses.ok() ? makeControlAddress(*addresses, 1024) : addresses.status().message();
}

const std::vector<InterfaceAddress> kHost = {interface("lo", "127.0.0.1:1"),         interface("lo", "[::1]:1"),
                                             interface("docker0", "172.17.0.1:1"),   interface("eth0", "[fe80::7]:1"),
                                             interface("eth0", "[fd00::7]:1"),       interface("eth0", "10.0.0.7:1"),
                                             interface("eth1", "10.1.0.7:1", false), interface("ib0", "10.2.0.7:1")};

}  // namespace

TEST_CASE("the addresses to listen on are those a person would take") {
  struct Row {
    const char* names;
    const char* family;
    const char* controlAddress;
  };
  const auto row = GENERATE(values<Row>({
      {"", "", "10.0.0.7:0,10.2.0.7:0,[fd00::7]:0"},
      {"", "inet6", "[fd00::7]:0"},
      {"ib", "", "10.2.0.7:0"},
      {"ib,eth0", "inet", "10.2.0.7:0,10.0.0.7:0"},
      {"eth", "inet", "10.0.0.7:0,10.1.0.7:0"},
      {"=eth", "",
       "no network interface matches TUTTI_SOCKET_IFNAME='=eth' and TUTTI_SOCKET_FAMILY=''; up are: "
       "lo (127.0.0.1), lo ([::1]), docker0 (172.17.0.1), eth0 ([fe80::7]), eth0 ([fd00::7]), "
       "eth0 (10.0.0.7), eth1 (10.1.0.7), ib0 (10.2.0.7)"},
      {"=eth0", "inet", "10.0.0.7:0"},
      {"^eth", "inet", "10.2.0.7:0"},
      {"^eth,ib", "inet", "172.17.0.1:0,127.0.0.1:0"},
      {"^=eth0", "inet", "10.2.0.7:0"},
      {"lo", "", "127.0.0.1:0,[::1]:0"},
      {"lo", "inet6", "[::1]:0"},
      {"", "ipx", "TUTTI_SOCKET_FAMILY='ipx' is neither inet nor inet6"},
      {"^", "", "TUTTI_SOCKET_IFNAME='^' names no interface"},
  }));
  CAPTURE(row.names, row.family);
  CHECK(chosen(kHost, row.names, row.family) == row.controlAddress);
}

TEST_CASE("a host with nothing but a loopback interface is a host") {
  CHECK(chosen({interface("lo", "127.0.0.1:1")}, "") == "127.0.0.1:0");
  CHECK(chosen({interface("lo", "127.0.0.1:1")}, "eth") ==
        "no network interface matches TUTTI_SOCKET_IFNAME='eth' and TUTTI_SOCKET_FAMILY=''; up are: lo (127.0.0.1)");
  CHECK(listInterfaces().ok());
}

TEST_CASE("addresses are read as they are written") {
  for (const char* text : {"127.0.0.1:80", "[::1]:65535", "[fe80::1%lo]:5"}) CHECK(parseAddress(text)->text() == text);
  for (const char* text : {"", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "::1:80", "[::1]", "[]:1", "a.b:1",
                           "1.2.3:4", "1.2.3.4:5x", "[1.2.3.4]:5"}) {
    CAPTURE(text);
    CHECK(parseAddress(text).status().code() == tuttiInvalidArgument);
  }
  CHECK(parseAddress("[fe80::1%nonesuch]:5").status().message() ==
        "address [fe80::1%nonesuch]:5: this host has no interface 'nonesuch'");
}

TEST_CASE("a control address skips the addresses that only another host can dial") {
  CHECK(parseControlAddress("[fe80::1%nonesuch]:5,10.0.0.1:5")->size() == 1);
  CHECK(parseControlAddress("[fe80::1%nonesuch]:5").status().code() == tuttiSystemError);
  CHECK(parseControlAddress("10.0.0.1:5,,").status().code() == tuttiInvalidArgument);
  CHECK(parseControlAddress(std::string(2000, '1')).status().code() == tuttiInvalidArgument);
}

TEST_CASE("localhost is found though only the loopback interface may be up") {
  const Result<std::vector<SocketAddress>> found = resolveHost("localhost", 7);
  REQUIRE(found.ok());
  CHECK(found->front().port() == 7);
  CHECK(resolveHost("no-such-host.invalid", 7).status().message().find("no-such-host.invalid") != std::string::npos);
}
