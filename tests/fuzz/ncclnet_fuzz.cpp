// Fuzzes what a network plugin says (its devices' properties, its comms and requests, lengths of what has come), and
// what a peer sends by it and through the stream beside it: the input is the plugin and the peer.
//
// The peer's messages mostly have headers as they should be, with some bytes changed.
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/endpoint_use.hpp"
#include "transport/ncclnet/endpoint.hpp"

using namespace tutti;
using namespace tutti::ncclnet;
using tutti::test::EndpointUse;
using tutti::test::Input;

namespace {

constexpr size_t kSlotBytes = 512;

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
    Header header{.bytes = input_.byte(), .call = EndpointUse::call(), .number = ++number_};
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

void use(EndpointUse* rank, Input* input, Fd* peer) {
  while (!input->empty()) {
    const uint8_t what = input->byte();
    if (const unsigned which = what % 8; which < EndpointUse::kCalls) {
      rank->make(which, what >= 128 ? input->byte() : 0, input);
    } else if (what < 240) {
      test::sendSpoiled(input, End{.messages = input->byte(), .receives = input->byte()}, peer->get());
    } else {
      peer->reset();
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
  test::Stream stream = test::openStream();
  auto plugin = Plugin::use(std::make_unique<InputNet>(&input), &input, options, kHeaderBytes + kSlotBytes);
  if (!plugin.ok()) {
    if (plugin.status().message().empty()) std::abort();
    return 0;
  }
  auto connection = connect(&input, *plugin, options, std::move(stream.rank));
  if (connection == nullptr) return 0;
  static const auto all = *Endpoints::create();
  NcclnetEndpoint endpoint(1, std::move(connection), all);
  std::vector<std::byte> out(kSlotBytes, std::byte{1}), in(kSlotBytes, test::kGuard);
  EndpointUse rank(&endpoint, out, in);
  use(&rank, &input, &stream.peer);
  endpoint.cancel();
  rank.checkGuards();
  return 0;
}
