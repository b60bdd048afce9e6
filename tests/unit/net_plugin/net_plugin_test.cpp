// libnccl-net-tutti.so: requests, groups, mistakes and ends.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "src/net_plugin/handle.hpp"
#include "tests/unit/net_plugin/ends.hpp"

namespace tutti {
namespace {

using namespace test;

std::vector<char> pattern(size_t bytes, int seed) {
  std::vector<char> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + static_cast<size_t>(seed) * 7 + i / 251);
  return data;
}

TEST_CASE("messages of all sizes come whole, in larger buffers too") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  const size_t bytes = GENERATE(0, 1, 7, 231, 232, 233, 4096, 65'537, 524'288, 524'289, 3'000'001);
  const size_t more = GENERATE(0, 13);
  CAPTURE(bytes, more);
  std::vector<Message> into{{std::vector<char>(bytes + more), 3}};
  const Message from{pattern(bytes, 5), 3};
  void *received = nullptr, *sent = nullptr;
  REQUIRE(ends.irecv(into, &received) == kSuccess);
  while (sent == nullptr) REQUIRE(ends.isend(from, &sent) == kSuccess);
  int came = -1;
  REQUIRE(ends.finish(sent, received, &came) == kSuccess);
  CHECK(static_cast<size_t>(came) == bytes);
  CHECK(std::equal(from.data.begin(), from.data.end(), into[0].data.begin()));
}

TEST_CASE("a send finds no request before somebody receives") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  void* sent = nullptr;
  for (int i = 0; i < 1000; ++i) REQUIRE(ends.isend({pattern(10, 1), 0}, &sent) == kSuccess);
  CHECK(sent == nullptr);
}

TEST_CASE("32 receives are under way at once, and no more") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  std::vector<std::vector<Message>> into(33, std::vector<Message>{{std::vector<char>(40'000), 0}});
  std::vector<void*> received(33);
  for (size_t i = 0; i < 33; ++i) REQUIRE(ends.irecv(into[i], &received[i]) == kSuccess);
  CHECK(std::ranges::count(received, nullptr) == 1);
  CHECK(received[32] == nullptr);
  std::vector<Message> from;
  for (int i = 0; i < 32; ++i) from.push_back({pattern(static_cast<size_t>(i) * 1250, i), 0});
  std::vector<void*> sent(32);
  for (size_t i = 0; i < 32; ++i) {
    while (sent[i] == nullptr) REQUIRE(ends.isend(from[i], &sent[i]) == kSuccess);
  }
  for (size_t i = 32; i-- > 0;) {  // in any order
    int came = -1;
    REQUIRE(ends.finish(sent[i], received[i], &came) == kSuccess);
    CHECK(came == static_cast<int>(i) * 1250);
    CHECK(std::equal(from[i].data.begin(), from[i].data.end(), into[i][0].data.begin()));
  }
}

TEST_CASE("grouped receives take sends by their tags, in any order") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  const size_t n = GENERATE(1, 2, 5, 8);
  const unsigned seed = GENERATE(1, 2, 3);
  CAPTURE(n, seed);
  std::vector<std::vector<Message>> groups(3);
  std::vector<void*> received(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < n; ++i) groups[g].push_back({std::vector<char>(9000), static_cast<int>(100 + i)});
    REQUIRE(ends.irecv(groups[g], &received[g]) == kSuccess);
  }
  std::mt19937 random(seed);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Message> from(n);
    std::vector<void*> sent(n);
    for (const size_t i : order) {
      from[i] = {pattern(i == 1 ? 0 : 500 + 900 * i, static_cast<int>(10 * g + i)), static_cast<int>(100 + i)};
      while (sent[i] == nullptr) REQUIRE(ends.isend(from[i], &sent[i]) == kSuccess);
    }
    std::array<int, 8> came;
    came.fill(-1);
    for (size_t i = 1; i < n; ++i) REQUIRE(ends.finish(sent[i], nullptr) == kSuccess);
    REQUIRE(ends.finish(sent[0], received[g], came.data()) == kSuccess);
    for (size_t i = 0; i < n; ++i) {
      CHECK(static_cast<size_t>(came[i]) == from[i].data.size());
      CHECK(std::equal(from[i].data.begin(), from[i].data.end(), groups[g][i].data.begin()));
    }
  }
}

TEST_CASE("a tag that nobody has asked for waits") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  std::vector<Message> first{{std::vector<char>(10), 1}}, second{{std::vector<char>(10), 2}};
  void *a = nullptr, *b = nullptr, *sentFirst = nullptr, *sentSecond = nullptr;
  REQUIRE(ends.irecv(first, &a) == kSuccess);
  REQUIRE(ends.irecv(second, &b) == kSuccess);
  const Message two{pattern(10, 2), 2}, one{pattern(10, 1), 1};
  for (int i = 0; i < 1000; ++i) REQUIRE(ends.isend(two, &sentSecond) == kSuccess);
  CHECK(sentSecond == nullptr);  // the oldest receive comes first
  while (sentFirst == nullptr) REQUIRE(ends.isend(one, &sentFirst) == kSuccess);
  while (sentSecond == nullptr) REQUIRE(ends.isend(two, &sentSecond) == kSuccess);
  REQUIRE(ends.finish(sentFirst, a) == kSuccess);
  REQUIRE(ends.finish(sentSecond, b) == kSuccess);
  CHECK(first[0].data == one.data);
  CHECK(second[0].data == two.data);
}

TEST_CASE("mistakes of callers are codes with sentences") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  (void)takeWarnings();
  char data[100] = {};
  void *memory = nullptr, *request = nullptr;
  CHECK(ends.net.regMr(ends.send, data, sizeof data, 2, &memory) == kInvalidArgument);
  CHECK(takeWarnings().find("memory of kind 2 is registered; ptrSupport is NCCL_PTR_HOST") != std::string::npos);
  CHECK(ends.net.regMrDmaBuf(ends.send, data, sizeof data, 4, 0, 1, &memory) == kInvalidArgument);
  CHECK(takeWarnings().find("DMA-BUF") != std::string::npos);
  std::vector<Message> many(9, {std::vector<char>(1), 0});
  CHECK(ends.irecv(many, &request) == kInvalidArgument);
  CHECK(takeWarnings().find("irecv of 9 buffers; it takes 1 to 8") != std::string::npos);
  int parts = 0;
  CHECK(ends.net.makeVirtualDevice(&parts, nullptr) == kInvalidArgument);
  // A send that is too large leaves the comm usable.
  std::vector<Message> small{{std::vector<char>(10), 0}};
  void *received = nullptr, *sent = nullptr;
  REQUIRE(ends.irecv(small, &received) == kSuccess);
  (void)takeWarnings();
  Code code = kSuccess;
  const Message large{pattern(11, 1), 0};
  for (int i = 0; i < 1'000'000 && code == kSuccess; ++i) code = ends.isend(large, &sent);
  CHECK(code == kInvalidUsage);
  CHECK(takeWarnings().find("isend of 11 bytes with tag 0, for which the peer at 127.0.0.1:") != std::string::npos);
  while (sent == nullptr) REQUIRE(ends.isend({pattern(10, 1), 0}, &sent) == kSuccess);
  CHECK(ends.finish(sent, received) == kSuccess);
}

TEST_CASE("comms are closed with requests under way, and the peer hears of it once by name") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  std::vector<Message> into{{std::vector<char>(9'000'000), 0}};
  void *received = nullptr, *sent = nullptr;
  REQUIRE(ends.irecv(into, &received) == kSuccess);
  const Message from{pattern(9'000'000, 1), 0};
  while (sent == nullptr) REQUIRE(ends.isend(from, &sent) == kSuccess);
  (void)takeWarnings();
  SECTION("the sender") {
    ends.closeSend();
    CHECK(ends.finish(nullptr, received) == kRemoteError);
  }
  SECTION("the receiver") {
    ends.closeReceive();
    CHECK(ends.finish(sent, nullptr) == kRemoteError);
    CHECK(ends.finish(sent, nullptr) == kRemoteError);
  }
  const std::string warnings = takeWarnings();
  CHECK(warnings.find("the peer at 127.0.0.1:") != std::string::npos);
  CHECK(std::ranges::count(warnings, '\n') == 1);
}

TEST_CASE("what was sent before its end is received after it") {
  Ends ends;
  REQUIRE(ends.connect() == kSuccess);
  std::vector<Message> into{{std::vector<char>(1000), 0}}, unasked{{std::vector<char>(1000), 0}};
  void *received = nullptr, *left = nullptr, *sent = nullptr;
  REQUIRE(ends.irecv(into, &received) == kSuccess);
  REQUIRE(ends.irecv(unasked, &left) == kSuccess);  // for which nothing comes
  const Message from{pattern(1000, 9), 0};
  while (sent == nullptr) REQUIRE(ends.isend(from, &sent) == kSuccess);
  REQUIRE(ends.finish(sent, nullptr) == kSuccess);
  ends.closeSend();
  CHECK(ends.finish(nullptr, received) == kSuccess);
  CHECK(into[0].data == from.data);
  CHECK(ends.finish(nullptr, left) == kRemoteError);
}

TEST_CASE("handles of others are refused") {
  Ends ends;
  void *comm = nullptr, *none = nullptr;
  (void)takeWarnings();
  std::array<std::byte, kHandleBytes> garbage;
  garbage.fill(std::byte{0x77});
  CHECK(ends.net.connect(ends.context(), 0, garbage.data(), &comm, &none) == kInvalidArgument);
  CHECK(takeWarnings().find("not a handle of this plugin; all ranks must load the same one") != std::string::npos);
  // Another secret: the listener does not let it in, and goes on.
  std::array<std::byte, kHandleBytes> forged = ends.handle;
  Result<net_plugin::Handle> handle = net_plugin::decodeHandle(std::span<const std::byte, kHandleBytes>(forged));
  REQUIRE(handle.ok());
  handle->secret = {1};
  net_plugin::encodeHandle(*handle, std::span<std::byte, kHandleBytes>(forged));
  Code code = kSuccess;
  void* accepted = nullptr;
  for (int i = 0; i < 1'000'000 && code == kSuccess && comm == nullptr; ++i) {
    code = ends.net.connect(ends.context(), 0, forged.data(), &comm, &none);
    REQUIRE(ends.net.accept(ends.listener(), &accepted, &none) == kSuccess);
  }
  CHECK(code == kRemoteError);
  CHECK(takeWarnings().find("no connection to 127.0.0.1:") != std::string::npos);
  CHECK(accepted == nullptr);
  CHECK(ends.connect() == kSuccess);
}

TEST_CASE("a listener that is gone is an error with its address") {
  Ends ends;
  std::array<std::byte, kHandleBytes> handle;
  void *listener = nullptr, *comm = nullptr, *none = nullptr;
  REQUIRE(ends.net.listen(ends.context(), 0, handle.data(), &listener) == kSuccess);
  ends.net.closeListen(listener);
  (void)takeWarnings();
  Code code = kSuccess;
  for (int i = 0; i < 1'000'000 && code == kSuccess; ++i)
    code = ends.net.connect(ends.context(), 0, handle.data(), &comm, &none);
  CHECK(code == kRemoteError);
  const std::string warnings = takeWarnings();
  CHECK(warnings.find("no connection to 127.0.0.1:") != std::string::npos);
  CHECK(warnings.find("refused") != std::string::npos);
}

TEST_CASE("strangers at a listener disturb nobody") {
  Ends ends;
  const Result<net_plugin::Handle> handle =
      net_plugin::decodeHandle(std::span<const std::byte, kHandleBytes>(ends.handle));
  REQUIRE(handle.ok());
  const std::string& text = handle->addresses;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(text.substr(text.find(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  std::vector<int> strangers;
  for (int i = 0; i < 300; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    const std::string words(static_cast<size_t>(i), static_cast<char>(i));
    (void)!::write(fd, words.data(), words.size());
    strangers.push_back(fd);
    void *accepted = nullptr, *none = nullptr;
    REQUIRE(ends.net.accept(ends.listener(), &accepted, &none) == kSuccess);
    REQUIRE(accepted == nullptr);
  }
  CHECK(ends.connect() == kSuccess);
  for (const int fd : strangers) ::close(fd);
}

TEST_CASE("many connections come up beside each other") {
  std::vector<std::unique_ptr<Ends>> all;
  for (int i = 0; i < 12; ++i) all.push_back(std::make_unique<Ends>());
  for (const auto& ends : all) REQUIRE(ends->connect() == kSuccess);
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Message> into{{std::vector<char>(5000), 0}};
    const Message from{pattern(5000, static_cast<int>(i)), 0};
    void *received = nullptr, *sent = nullptr;
    REQUIRE(all[i]->irecv(into, &received) == kSuccess);
    while (sent == nullptr) REQUIRE(all[i]->isend(from, &sent) == kSuccess);
    REQUIRE(all[i]->finish(sent, received) == kSuccess);
    CHECK(into[0].data == from.data);
  }
}

TEST_CASE("what cannot be had by the variables is said") {
  struct Row {
    const char* name;
    const char* value;
    const char* says;
  };
  const auto row = GENERATE(
      values<Row>({{"TUTTI_PLUGIN_TRANSPORT", "pigeons", "TUTTI_PLUGIN_TRANSPORT='pigeons' is neither verbs nor tcp"},
                   {"TUTTI_NSOCKETS", "17", "TUTTI_NSOCKETS=17 is outside 1..16"},
                   {"TUTTI_SOCKET_IFNAME", "=nosuch0", "no network interface matches"}}));
  CAPTURE(row.name);
  const Variable transport("TUTTI_PLUGIN_TRANSPORT", "tcp");
  const Variable variable(row.name, row.value);
  (void)takeWarnings();
  CommConfig config;
  void* context = nullptr;
  CHECK(net12().init(&context, 1, &config, hear, noEvent) != kSuccess);
  CHECK(takeWarnings().find(row.says) != std::string::npos);
  int n = -1;
  CHECK(net12().devices(&n) == kSuccess);
  CHECK(n == 0);
}

}  // namespace
}  // namespace tutti
