// Fuzzes what a peer may do over verbs, on adapters of software (tests/support/fake_verbs): its card, the 32 bits
// beside its writes, what it writes into this rank's slots, and what it says through the stream of rails that return.
// Adapters keep it out of all other memory; this rank must not crash, nor write beyond what a message may fill.
#include <cstdlib>
#include <vector>

#include "tests/fuzz/endpoint_use.hpp"
#include "transport/verbs/endpoint.hpp"

using namespace tutti;
using namespace tutti::verbs;
using tutti::test::EndpointUse;
using tutti::test::Input;

namespace {

constexpr size_t kSlotBytes = 2048;

Options with(const char* adapters) {
  return {.adapters = adapters, .rails = 2, .queuePairs = 2, .splits = true, .slots = 4, .slotBytes = kSlotBytes};
}

Rails open(const char* adapters) {
  auto rails = Device::open(with(adapters));
  if (!rails.ok() || rails->size() != 2) std::abort();  // not the adapters of software
  return *rails;
}

/// Memory that adapters know.
struct Room {
  Room(const Rails& rails, size_t bytes, Registered::Use use) : bytes_(bytes, test::kGuard) {
    auto made = Registered::make(rails, memory(), use, 0);
    if (!made.ok()) std::abort();
    registered = std::move(*made);
  }
  Memory memory() { return {MemoryKind::Host, -1, bytes_.data(), bytes_.size()}; }
  std::byte* data() { return bytes_.data(); }
  std::span<std::byte> span() { return bytes_; }
  std::unique_ptr<Registered> registered;

 private:
  std::vector<std::byte> bytes_;
};

/// The other end: it does to this rank whatever the input says.
class Peer final : private QueuePair::Owner {
 public:
  explicit Peer(const Rails& rails)
      : completions_(*Completions::create(rails)), slots_(rails, 8 * (kSlotBytes + 64), Registered::Use::Slots) {
    card_ = {.packetNumber = 7, .slots = 4, .queuePairs = 2, .slotBytes = kSlotBytes, .rails = 2};
    card_.memory = reinterpret_cast<uint64_t>(slots_.data());
    for (uint32_t k = 0; k < 4; ++k) {
      QueuePair::describe(*rails[k % 2], &card_.rail[k % 2]);
      card_.rail[k % 2].memoryKey = slots_.registered->keys().remote[k % 2];
      auto pair = QueuePair::create(this, *completions_, k % 2, 24, with(""));
      if (!pair.ok()) std::abort();
      card_.rail[k % 2].queuePairs[k / 2] = (*pair)->number();
      pairs_.push_back(std::move(*pair));
    }
  }
  const ConnectionCard& card() const { return card_; }
  void connect(const ConnectionCard& theirs) {
    theirs_ = theirs;
    for (size_t k = 0; k < pairs_.size(); ++k) {
      if (!pairs_[k]->connect(card_, theirs, theirs.rail[k % 2].queuePairs[k / 2], with("")).ok()) std::abort();
    }
  }
  /// A message as it should be, with some bytes changed.
  void send(Input* input, size_t stride) {
    const size_t bytes = input->byte();
    Header header{.call = EndpointUse::call(),
                  .bytes = static_cast<uint32_t>(bytes),
                  .number = static_cast<uint32_t>(number_ + 1)};
    header.released = input->byte() % 8;
    header.lent = input->byte() < 64 ? 1 : 0;
    header.pieces = input->byte() < 64 ? input->byte() % 5 : 1;
    input->spoil(&header);
    std::byte* const from = slots_.data();
    const std::string_view payload = input->some(255);
    std::memset(from, 0, kHeaderBytes + 256);
    std::memcpy(from + kHeaderBytes, payload.data(), payload.size());
    if (header.lent != 0 && input->byte() < 192) lend(from + kHeaderBytes);
    if (input->byte() < 192) header.check = checkOf(header, from + kHeaderBytes, payloadBytes(header) % 256);
    std::memcpy(from, &header, kHeaderBytes);
    const uint64_t at = theirs_.memory + number_ % 4 * stride;
    for (uint32_t piece = 0; piece < std::max<uint32_t>(header.pieces % 8, 1); ++piece)
      write(at, kHeaderBytes + bytes, pieceWord(number_ + 1, piece), piece);
    ++number_;
  }
  /// Without a header, whatever came before.
  void sendBare(Input* input, size_t stride) {
    const size_t bytes = input->byte();
    const uint32_t odd = input->byte() < 32 ? input->byte() : 0;
    const uint32_t differs = input->byte() % 8u << kPieceShift;
    write(theirs_.memory + number_ % 4 * stride + kHeaderBytes, bytes,
          kBare | differs | ((static_cast<uint32_t>(number_ + 1) + odd) & kCounterBits), input->byte());
    ++number_;
  }
  void write(uint64_t to, size_t bytes, uint32_t word, size_t which) {
    QueuePair& by = *pairs_[which % pairs_.size()];
    completions_->poll();
    if (!by.hasRoom()) return;
    const QueuePair::Piece piece{slots_.data(), bytes, slots_.registered->keys().local[by.rail()]};
    (void)by.write({&piece, 1}, {to, theirs_.rail[by.rail()].memoryKey}, word);
  }
  /// Bytes of the input somewhere into this rank's slots, and a word.
  void scribble(Input* input, size_t memoryBytes) {
    const std::string_view some = input->some(64);
    std::memcpy(slots_.data(), some.data(), some.size());
    const uint64_t at = input->value<uint32_t>() % (memoryBytes - 64);
    write(theirs_.memory + at, some.size(), input->value<uint32_t>(), input->byte());
  }
  void poll() { completions_->poll(); }

 private:
  void lend(std::byte* at) {
    Loan loan{reinterpret_cast<uint64_t>(slots_.data()), slots_.registered->keys().remote};
    std::memcpy(at, &loan, sizeof loan);
  }
  void came(uint32_t) override {}
  void fetched(uint32_t) override {}
  void failed(uint32_t, const std::string&) override {}

  std::shared_ptr<Completions> completions_;
  Room slots_;
  ConnectionCard card_, theirs_;
  std::vector<std::unique_ptr<QueuePair>> pairs_;
  uint64_t number_ = 0;
};

void say(Input* input, int fd) {
  ReturnCard card{.kind = static_cast<ReturnCard::Kind>(input->byte() % 6), .rail = input->byte() % 3u};
  card.attempt = input->byte() % 3;
  test::sendSpoiled(input, card, fd);
}

void use(EndpointUse* rank, Input* input, Peer* peer, Fd* stream) {
  constexpr size_t kStride = (kHeaderBytes + kSlotBytes + 63) / 64 * 64;
  while (!input->empty()) {
    const uint8_t what = input->byte();
    const unsigned which = what % 16;
    switch (which) {
      case 7: say(input, stream->get()); break;
      case 8: peer->scribble(input, 8 * kStride); break;
      case 9: peer->write(0, 0, input->byte() % 16, 0); break;  // a count of messages it is done with
      case 10: peer->write(0, 0, lostRailWord(input->byte() % 4u, input->byte() % 8u, input->byte()), 0); break;
      case 11:
        if (what > 240) stream->reset();
        break;
      case 12: peer->sendBare(input, kStride); break;
      case 13:
      case 14:
      case 15: peer->send(input, kStride); break;
      default: rank->make(which, what >= 128 ? input->byte() * (which == 3 ? 8u : 1u) : 0, input);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Rails here = open("=fake_0,fake_1"), there = open("=fake_2,fake_3");
  Input input(data, size);
  test::Stream stream = test::openStream();
  auto completions = *Completions::create(here);
  auto connection = Connection::create(1, here, completions, with(""), std::move(stream.rank));
  if (!connection.ok()) std::abort();
  Peer peer(there);
  ConnectionCard card = peer.card();
  input.spoil(&card);
  if (!(*connection)->connect(card, with("")).ok()) return 0;
  peer.connect((*connection)->card());
  Room room(here, 2 * kSlotBytes, Registered::Use::Lent);
  auto registry = std::make_shared<Registry>();
  const auto kept = registry->add(room.memory(), room.registered->keys(), nullptr);
  VerbsEndpoint endpoint(1, std::move(*connection), registry);
  EndpointUse rank(&endpoint, room.span(), room.span().subspan(kSlotBytes));
  use(&rank, &input, &peer, &stream.peer);
  endpoint.cancel();
  rank.checkGuards();
  return 0;
}
