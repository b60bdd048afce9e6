#include <catch2/catch.hpp>

#include "src/base/stream_index.hpp"
#include "src/control/dial.hpp"
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
       "no network interface matches TUTTI_SOCKET_IFNAME='=eth' and TUTTI_SOCKET_FAMILY=''; name one that is up, or "
       "leave both unset; up are: "
       "lo (127.0.0.1), lo ([::1]), docker0 (172.17.0.1), eth0 ([fe80::7]), eth0 ([fd00::7]), "
       "eth0 (10.0.0.7), eth1 (10.1.0.7), ib0 (10.2.0.7)"},
      {"=eth0", "inet", "10.0.0.7:0"},
      {"^eth", "inet", "10.2.0.7:0"},
      {"^eth,ib", "inet", "172.17.0.1:0,127.0.0.1:0"},
      {"^=eth0", "inet", "10.2.0.7:0"},
      {"lo", "", "127.0.0.1:0,[::1]:0"},
      {"lo", "inet6", "[::1]:0"},
      {"", "ipx", "TUTTI_SOCKET_FAMILY='ipx' is neither inet nor inet6; set one of them, or leave it unset"},
      {"^", "", "TUTTI_SOCKET_IFNAME='^' names no interface"},
  }));
  CAPTURE(row.names, row.family);
  CHECK(chosen(kHost, row.names, row.family) == row.controlAddress);
}

TEST_CASE("connections are spread over the interfaces that somebody has named") {
  struct Row {
    const char* names;
    std::vector<const char*> addresses;
    int paths;
  };
  const Row rows[] = {
      {"", {"10.0.0.1:1", "10.1.0.1:1"}, 1},
      {"^docker", {"10.0.0.1:1", "10.1.0.1:1"}, 1},
      {"eth0,eth1", {"10.0.0.1:1", "10.1.0.1:1"}, 2},
      {"eth", {"10.0.0.1:1", "[fd00::1]:1", "10.1.0.1:1", "[fd01::1]:1"}, 2},
      {"=eth0", {"10.0.0.1:1", "[fd00::1]:1"}, 1},
      {"eth", {"[fd00::1]:1", "[fe80::1%lo]:1", "[fd01::1]:1", "10.0.0.1:1"}, 2},
  };
  for (const Row& row : rows) {
    CAPTURE(row.names, row.addresses.size());
    std::vector<SocketAddress> addresses;
    for (const char* text : row.addresses) addresses.push_back(*parseAddress(text));
    CHECK(spreadPaths(addresses, row.names) == row.paths);
  }
}

TEST_CASE("a dial by another path begins with another address of the same kind, and has all others behind it") {
  CHECK(beginWith("10.0.0.1:5,[fd00::1]:6,10.1.0.1:7", 0) == "10.0.0.1:5,[fd00::1]:6,10.1.0.1:7");
  CHECK(beginWith("10.0.0.1:5,[fd00::1]:6,10.1.0.1:7", 1) == "10.1.0.1:7,10.0.0.1:5,[fd00::1]:6");
  CHECK(beginWith("10.0.0.1:5,[fd00::1]:6,10.1.0.1:7", 3) == "10.1.0.1:7,10.0.0.1:5,[fd00::1]:6");
  CHECK(beginWith("[fd00::1]:6,[fe80::1%eth0]:7,[fd01::1]:8", 1) == "[fd01::1]:8,[fd00::1]:6,[fe80::1%eth0]:7");
  CHECK(beginWith("10.0.0.1:5", 1) == "10.0.0.1:5");
  CHECK(beginWith("", 1) == "");
  for (const int index : {0, 17, 3000}) {
    for (const int path : {0, 1, 7}) {
      CHECK(pathOfStream(streamOnPath(index, path)) == path);
      CHECK(numberOfStream(streamOnPath(index, path)) == index);
    }
  }
}

TEST_CASE("a host with nothing but a loopback interface is a host") {
  CHECK(chosen({interface("lo", "127.0.0.1:1")}, "") == "127.0.0.1:0");
  CHECK(chosen({interface("lo", "127.0.0.1:1")}, "eth") ==
        "no network interface matches TUTTI_SOCKET_IFNAME='eth' and TUTTI_SOCKET_FAMILY=''; name one that is up, or "
        "leave both unset; up are: lo (127.0.0.1)");
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

TEST_CASE("the speeds of the interfaces that are chosen add up, each once, and not if one is unknown") {
  const auto total = [](const std::string& names, uint32_t ofEth1) {
    return totalMbps(kHost, *chooseAddresses(kHost, names, ""), [=](const std::string& interface) -> uint32_t {
      return interface == "eth0" ? 1000 : interface == "eth1" ? ofEth1 : 100'000;
    });
  };
  CHECK(total("eth0", 300) == 1000);  // which has three addresses
  CHECK(total("eth0,eth1", 300) == 1300);
  CHECK(total("eth0,eth1", 0) == 0);
  CHECK(total("ib", 0) == 100'000);
}
