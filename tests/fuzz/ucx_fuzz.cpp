// Fuzzes what a peer may do over UCX: its card, its active messages, whatever their headers and lengths, sent at once
// or lent, and what it says through the stream.  UCX is the real one, with both ends in this process.
//
// Messages mostly have headers as they should be, with some bytes changed.
#include <cstdlib>
#include <vector>

#include "tests/fuzz/endpoint_use.hpp"
#include "transport/ucx/endpoint.hpp"

using namespace tutti;
using namespace tutti::ucx;
using tutti::test::EndpointUse;
using tutti::test::Input;

namespace {

constexpr size_t kSlotBytes = 2048;

Options options() {
  return {.slots = 3,
          .slotBytes = kSlotBytes,
          .closeMs = 0,
          .settings = {{"TLS", "shm"}, {"RNDV_THRESH", "512"}, {"WARN_UNUSED_ENV_VARS", "n"}}};
}

std::shared_ptr<Worker> open() {
  auto worker = Worker::create(options());
  if (!worker.ok()) std::abort();  // UCX is not there
  return *worker;
}

/// The other end: it sends whatever the input says.
class Peer {
 public:
  explicit Peer(std::shared_ptr<Worker> worker, const Worker& to)
      : worker_(std::move(worker)), to_(to.address()), data_(2 * kSlotBytes, std::byte{1}) {}
  const std::string& address() const { return worker_->address(); }
  void begin(const Card& card) {
    card_ = card;
    number_ = 0;
  }
  void greet() { send({}, 0, 0); }
  void message(Input* input) {
    const size_t bytes = input->byte() < 192 ? input->byte() : input->value<uint16_t>() % data_.size();
    Header header{.bytes = bytes, .call = EndpointUse::call(), .number = ++number_, .released = input->byte() % 4u};
    const Header meant = header;
    input->spoil(&header);
    if (header.number != meant.number) --number_;
    send(header, bytes, input->byte() < 192 ? UCP_AM_SEND_FLAG_EAGER : 0);
  }
  void poll() {
    const std::lock_guard lock(worker_->mutex());
    (void)worker_->poll();
    std::erase_if(requests_, [this](ucs_status_ptr_t request) {
      if (worker_->api().requestStatus(request) == UCS_INPROGRESS) return false;
      worker_->api().requestFree(request);
      return true;
    });
  }

 private:
  void send(Header header, size_t bytes, uint32_t flags) {
    const std::lock_guard lock(worker_->mutex());
    const auto link = worker_->link(to_);
    if (!link.ok() || requests_.size() > 16) return;
    (*link)->isUp = true;
    header.connection ^= card_.connection;  // what the input has spoiled stays wrong
    header.key ^= card_.key;
    headers_[next_++ % headers_.size()] = header;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    params.flags = flags;
    params.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request =
        worker_->api().amSend((*link)->endpoint, kMessageId, &headers_[(next_ - 1) % headers_.size()], kHeaderBytes,
                              data_.data(), bytes, &params);
    if (UCS_PTR_IS_PTR(request)) requests_.push_back(request);
  }

  const std::shared_ptr<Worker> worker_;
  const std::string to_;
  std::vector<std::byte> data_;
  std::array<Header, 64> headers_;
  size_t next_ = 0;
  std::vector<ucs_status_ptr_t> requests_;
  Card card_;
  uint64_t number_ = 0;
};

void use(EndpointUse* rank, Input* input, Peer* peer, Fd* stream) {
  while (!input->empty()) {
    const uint8_t what = input->byte();
    if (const unsigned which = what % 16; which < EndpointUse::kCalls) {
      rank->make(which, what >= 128 ? input->value<uint16_t>() % (kSlotBytes + 1) : 0, input);
    } else if (which == 7) {
      test::sendSpoiled(input,
                        Note{.what = input->byte() % 3u, .sent = input->byte() % 8u, .taken = input->byte() % 4u},
                        stream->get());
    } else if (which == 8 && what >= 240) {
      stream->reset();
    } else {
      peer->message(input);
    }
    peer->poll();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<Worker> here = open();
  static auto* const peer = new Peer(open(), *here);
  Input input(data, size);
  test::Stream stream = test::openStream();
  auto connection = Connection::create(1, here, options(), std::move(stream.rank));
  if (!connection.ok()) std::abort();
  peer->begin((*connection)->card());
  Card card = (*connection)->card();
  input.spoil(&card);
  bool up = false;
  for (int tries = 0; tries < 100 && !up; ++tries) {
    if (tries == 0) peer->greet();
    peer->poll();
    const std::lock_guard lock(here->mutex());
    const Result<bool> connected = (*connection)->connect(card, peer->address());
    if (!connected.ok()) break;
    up = *connected;
  }
  if (!up) return 0;
  static auto* const memory = new std::vector<std::byte>;
  memory->assign(2 * kSlotBytes + 64, test::kGuard);
  UcxEndpoint endpoint(1, std::move(*connection), std::make_shared<Registry>());
  EndpointUse rank(&endpoint, *memory, std::span(*memory).subspan(kSlotBytes));
  use(&rank, &input, peer, &stream.peer);
  endpoint.cancel();
  rank.checkGuards();
  return 0;
}
