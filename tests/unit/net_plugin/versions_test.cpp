// libnccl-net-tutti.so by every version of NCCL's interface, through the adapters of transport/ncclnet.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/net_plugin/ends.hpp"
#include "transport/ncclnet/net.hpp"

namespace tutti {
namespace {

using namespace test;

template <class Properties>
Properties propertiesOf(const char* symbol, Code (*(*get)(const void* table))(int, Properties*)) {
  Properties properties;
  std::memset(static_cast<void*>(&properties), 0x5a, sizeof properties);
  CHECK(get(netPluginTable(symbol))(0, &properties) == kSuccess);
  return properties;
}

template <class Types>
auto propertiesFunction(const void* table) {
  return static_cast<const Table<Types>*>(table)->getProperties;
}

TEST_CASE("every version exports its table and carries messages") {
  const Variable transport("TUTTI_PLUGIN_TRANSPORT", "tcp");
  const Variable interface("TUTTI_SOCKET_IFNAME", "=lo");
  for (const Version& version : versions()) {
    DYNAMIC_SECTION(version.symbol) {
      const void* const table = netPluginTable(version.symbol);
      REQUIRE(table != nullptr);
      const std::unique_ptr<Net> net = version.adapt(table);
      CHECK(std::string(net->name()) == "Tutti");
      REQUIRE(net->init(hear) == kSuccess);
      int n = 0;
      CHECK(net->devices(&n) == kSuccess);
      CHECK(n == 1);
      DeviceProperties properties;
      CHECK(net->getProperties(0, &properties) == kSuccess);
      CHECK(properties.name == "tutti-tcp");
      CHECK(properties.memory == kHostMemory);
      CHECK(net->getProperties(1, &properties) == kInvalidArgument);
      std::array<std::byte, kHandleBytes> handle{};
      void *listen = nullptr, *send = nullptr, *receive = nullptr;
      REQUIRE(net->listen(0, handle.data(), &listen) == kSuccess);
      for (int i = 0; i < 100'000 && (send == nullptr || receive == nullptr); ++i) {
        if (send == nullptr) REQUIRE(net->connect(0, handle.data(), &send) == kSuccess);
        if (receive == nullptr) REQUIRE(net->accept(listen, &receive) == kSuccess);
      }
      REQUIRE(send != nullptr);
      REQUIRE(receive != nullptr);
      std::vector<char> from(70'000, 'x'), to(80'000);
      void *sendMemory = nullptr, *receiveMemory = nullptr, *sent = nullptr, *received = nullptr;
      REQUIRE(net->regMr(send, from.data(), from.size(), kHostMemory, &sendMemory) == kSuccess);
      REQUIRE(net->regMr(receive, to.data(), to.size(), kHostMemory, &receiveMemory) == kSuccess);
      REQUIRE(net->irecv(receive, to.data(), to.size(), receiveMemory, &received) == kSuccess);
      REQUIRE(received != nullptr);
      int bytes = 0, gone = 0, came = 0;
      for (int i = 0; i < 10'000'000 && came == 0; ++i) {
        if (sent == nullptr && gone == 0)
          REQUIRE(net->isend(send, from.data(), from.size(), sendMemory, &sent) == kSuccess);
        if (sent != nullptr) REQUIRE(net->test(sent, &gone, nullptr) == kSuccess);
        if (gone != 0) sent = nullptr;
        REQUIRE(net->test(received, &came, &bytes) == kSuccess);
      }
      while (sent != nullptr && gone == 0) REQUIRE(net->test(sent, &gone, nullptr) == kSuccess);
      CHECK(bytes == 70'000);
      CHECK(std::memcmp(from.data(), to.data(), from.size()) == 0);
      CHECK(net->deregMr(send, sendMemory) == kSuccess);
      CHECK(net->deregMr(receive, receiveMemory) == kSuccess);
      CHECK(net->closeSend(send) == kSuccess);
      CHECK(net->closeRecv(receive) == kSuccess);
      CHECK(net->closeListen(listen) == kSuccess);
      CHECK(net->finalize() == kSuccess);
    }
  }
}

TEST_CASE("properties fill what their version has, and no byte behind it") {
  const Variable transport("TUTTI_PLUGIN_TRANSPORT", "tcp");
  const auto p8 = propertiesOf<Properties8>("ncclNetPlugin_v8", propertiesFunction<Types8>);
  CHECK(p8.mostGrouped == 8);
  CHECK(p8.mostComms > 1000);
  CHECK(p8.mbitPerSecond > 0);
  const auto p9 = propertiesOf<Properties9To12<4>>("ncclNetPlugin_v9", propertiesFunction<Types9>);
  CHECK(p9.mostGrouped == 8);
  CHECK(p9.parts == 1);
  CHECK(p9.part[0] == 0);
  CHECK(p9.mostBytes >= size_t{1} << 30);
  CHECK(p9.mostInMultiRequest == 0x5a5a5a5a);
  const auto p11 = propertiesOf<Properties9To12<4>>("ncclNetPlugin_v11", propertiesFunction<Types11>);
  CHECK(p11.mostInMultiRequest == 1);
  CHECK(p11.rail == 0x5a5a);
  const auto p12 = propertiesOf<Properties9To12<8>>("ncclNetPlugin_v12", propertiesFunction<Types12>);
  CHECK(p12.mostInMultiRequest == 1);
  CHECK(p12.rail == -1);
  CHECK(p12.plane == -1);
}

}  // namespace
}  // namespace tutti
