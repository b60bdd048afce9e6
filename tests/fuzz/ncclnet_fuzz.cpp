// Fuzzes what a network plugin says (its devices' properties, its comms and requests, lengths of what has come), and
// what a peer sends by it and through the stream beside it: the input is the plugin and the peer.
//
// The peer's messages mostly have headers as they should be, with some bytes changed.
#include <sys/socket.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/input.hpp"
#include "transport/ncclnet/endpoint.hpp"

using namespace tutti;
using namespace tutti::ncclnet;
using tutti::test::Input;

namespace {

constexpr size_t kSlotBytes = 512;
const Fingerprint kCall = makeFingerprint({.sequence = 1, .count = 3});

class InputNet final : public Net {
 public:
  explicit InputNet(Input* input) : input_(*input), name_(input->some(8)) {}

  const char* name() const override { return name_.c_str(); }
  int version() const override { return 11; }
  Code init(Logger) override { return code(); }
  Code finalize() override { return code(); }
  Code devices(int* n) override {
    *n = input_.byte() < 224 ? input_.byte() % 4 : input_.value<int>();
    return code();
  }
  Code getProperties(int, DeviceProperties* into) override {
    if (input_.byte() < 192) {
      *into = {"net", kHostMemory, kHostDevice, size_t{1} << 20, "", false};
    } else {
      *into = {std::string(input_.some(200)), input_.value<int>(),          input_.value<int>(),
               input_.value<size_t>(),        std::string(input_.some(20)), input_.byte() % 2 != 0};
    }
    return code();
  }
  Code listen(int, void* handle, void** comm) override {
    const std::string_view written = input_.some(255);
    std::memcpy(handle, written.data(), written.size());
    *comm = some();
    return code();
  }
  Code connect(int, void* handle, void** comm) override {
    std::memset(handle, input_.byte(), kHandleBytes);  // a plugin keeps its state there
    *comm = some();
    return code();
  }
  Code accept(void*, void** comm) override {
    *comm = some();
    return code();
  }
  Code regMr(void*, void*, size_t, int, void** memory) override {
    *memory = some();
    return code();
  }
  Code regMrDmaBuf(void*, void*, size_t, uint64_t, int, void** memory) override {
    *memory = some();
    return code();
  }
  bool hasFlush() const override { return true; }
  Code iflush(void*, void*, size_t, void*, void** request) override {
    *request = some();
    return code();
  }
  Code deregMr(void*, void*) override { return code(); }
  Code isend(void*, void* data, size_t bytes, void*, void** request) override {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; ++i) sum += static_cast<unsigned char>(static_cast<char*>(data)[i]);
    sums_ += sum;
    *request = some();
    return code();
  }
  Code irecv(void*, void* data, size_t bytes, void*, void** request) override {
    *request = some();
    if (*request != nullptr) into_[*request] = {static_cast<char*>(data), bytes};
    return code();
  }
  Code test(void* request, int* done, int* bytes) override {
    *done = input_.byte() % 2;
    const auto at = into_.find(request);
    if (*done != 0 && at != into_.end()) arrive(at->second, bytes);
    return code();
  }
  Code closeSend(void*) override { return code(); }
  Code closeRecv(void*) override { return code(); }
  Code closeListen(void*) override { return code(); }

 private:
  struct Into {
    char* data;
    size_t bytes;
  };
  Code code() { return input_.byte() < 248 ? kSuccess : input_.byte(); }
  void* some() { return input_.byte() < 32 ? nullptr : reinterpret_cast<void*>(++last_); }
  void arrive(const Into& into, int* bytes) {
    Header header{.bytes = input_.byte(), .call = kCall, .number = ++number_};
    *bytes = static_cast<int>(kHeaderBytes + header.bytes);
    input_.spoil(&header);
    if (header.number != number_) --number_;
    if (input_.byte() > 240) *bytes = input_.value<int>();
    if (input_.byte() > 240) header.bytes = static_cast<size_t>(*bytes) - kHeaderBytes;
    std::memcpy(into.data, &header, kHeaderBytes);
    const std::string_view rest = input_.some(into.bytes - kHeaderBytes);
    std::memcpy(into.data + kHeaderBytes, rest.data(), rest.size());
  }

  Input& input_;
  const std::string name_;
  std::map<void*, Into> into_;
  uintptr_t last_ = 0;
  uint64_t number_ = 0;
  unsigned sums_ = 0;
};

void sendByStream(Input* input, int fd) {
  End end{.messages = input->byte(), .receives = input->byte()};
  input->spoil(&end);
  const size_t bytes = input->byte() < 200 ? sizeof end : input->byte() % sizeof end;
  (void)::send(fd, &end, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void use(NcclnetEndpoint* endpoint, Input* input, Fd* peer) {
  std::vector<std::byte> out(kSlotBytes, std::byte{1}), in(kSlotBytes);
  std::vector<Request> requests;
  while (!input->empty()) {
    const uint8_t what = input->byte();
    const Expect expect{what >= 128 ? input->byte() : 0u, kCall};
    switch (what % 8) {
      case 0: (void)endpoint->send(out.data(), expect.bytes, kCall); break;
      case 1: (void)endpoint->receive(in.data(), expect); break;
      case 2: {
        const auto seen = endpoint->peek(expect);
        if (seen.ok() && *seen != nullptr) std::memcpy(in.data(), *seen, expect.bytes);
        endpoint->release();
        break;
      }
      case 3:
      case 4: {
        const auto posted = what % 8 == 3 ? endpoint->postSend(out.data(), expect.bytes, kCall)
                                          : endpoint->postReceive(in.data(), expect);
        if (posted.ok() && *posted != 0) requests.push_back(*posted);
        break;
      }
      case 5:
        if (!requests.empty()) (void)endpoint->test(requests[input->byte() % requests.size()]);
        break;
      case 6: (void)endpoint->pending(); break;
      default: what < 240 ? sendByStream(input, peer->get()) : peer->reset();
    }
  }
}

std::unique_ptr<Connection> connect(Input* input, std::shared_ptr<Plugin> plugin, const Options& options, Fd mine) {
  auto connection = Connection::create(1, std::move(plugin), options, std::move(mine));
  if (!connection.ok()) return nullptr;
  Card theirs{.slotBytes = options.slotBytes};
  input->spoil(&theirs);
  for (int tries = 0; tries < 8; ++tries) {
    const Result<bool> up = (*connection)->connect(&theirs);
    if (!up.ok()) return nullptr;
    if (*up) return std::move(*connection);
  }
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const Options options{.device = input.byte() < 200 ? "" : "net", .slots = 2, .slotBytes = kSlotBytes, .closeMs = 0};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  Fd mine(ends[0]), peer(ends[1]);
  auto plugin = Plugin::use(std::make_unique<InputNet>(&input), &input, options, kHeaderBytes + kSlotBytes);
  if (!plugin.ok()) {
    if (plugin.status().message().empty()) std::abort();
    return 0;
  }
  auto connection = connect(&input, *plugin, options, std::move(mine));
  if (connection == nullptr) return 0;
  static const auto all = *Endpoints::create();
  NcclnetEndpoint endpoint(1, std::move(connection), all);
  use(&endpoint, &input, &peer);
  endpoint.cancel();
  return 0;
}
