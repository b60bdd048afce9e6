// Fuzzes what other processes of a host say of their device memory: cards of inboxes and of resident memory, and the
// exchange of registered memory on the CUDA driver of the tests, where a peer has served a descriptor that the input
// says, with a card in it, and messages lie at places that it says.  What is found is read to its last byte.
//
// No memory is opened by handle: a handle names a process and a descriptor, of which this one has others than its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "tests/fuzz/input.hpp"
#include "tests/unit/transport/local_exchange.hpp"
#include "transport/cuda/inbox.hpp"
#include "transport/cuda/memory_exchange.hpp"

using namespace tutti;
using namespace tutti::cuda;
using tutti::test::Input;

namespace {

constexpr uint64_t kId = 5;

struct World {
  std::shared_ptr<CudaDevice> device;
  DevicePages pages;
  Fd pagesFd;

  World() {
    auto opened = CudaDevice::open(0);
    if (!opened.ok()) std::abort();  // not the driver of the tests
    device = *opened;
    pages = std::move(*DevicePages::create(device, 1));
    pagesFd = std::move(*pages.descriptor());
  }
};

/// What a peer serves for the card: mostly what a Readers would be.
Fd cardOf(Input* input, const LentCard& card) {
  Result<std::shared_ptr<Readers>> readers = Readers::create();
  if (!readers.ok()) std::abort();
  std::memcpy((*readers)->note(), &card, sizeof card);
  if (input->byte() < 32) (*readers)->end(MemoryEnd::Idle);
  if (input->byte() < 224) return Fd(fcntl((*readers)->descriptor(), F_DUPFD_CLOEXEC, 0));
  Fd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string_view bytes = input->some(255);
  if (::write(fd.get(), bytes.data(), bytes.size()) < 0) std::abort();
  if (input->byte() < 128) (void)!ftruncate(fd.get(), 4096);
  if (input->byte() < 192) fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

void readLent(World& world, Input* input) {
  test::LocalExchange exchange;
  LentCard card{.bytes = world.pages.bytes()};
  input->spoil(&card);
  card.offer = {};
  const Fd served = cardOf(input, card);
  (void)exchange.serve("device card:5", served.get());
  (void)exchange.serve("device memory:5", input->byte() < 224 ? world.pagesFd.get() : served.get());
  MemoryExchange mine(world.device, {exchange, 0, 1, [] { return true; }});
  for (int places = 0; places < 4; ++places) {
    LentPlace place{.id = kId, .offset = input->value<uint16_t>()};
    input->spoil(&place);
    place.id = kId;  // others are fetched until a deadline
    const size_t bytes = input->byte() < 192 ? input->value<uint16_t>() : input->value<size_t>();
    const auto at = mine.address(1, 2, place, bytes, false);
    if (!at.ok()) {
      if (at.status().message().empty()) std::abort();
      continue;
    }
    volatile std::byte sum{};
    if (bytes > 0) sum = (*at)[0] ^ (*at)[bytes - 1];
    (void)sum;
    mine.closeEnded();
  }
}

void openCards(World& world, Input* input) {
  const InboxLayout layout{4, 1024};
  InboxCard card{.processId = input->byte() % 2u, .inboxId = input->byte() % 2u, .layout = layout};
  input->spoil(&card);
  card.words = card.slots = {};
  if (checkInboxCard(card, layout).ok() && card.wordsOffset + layout.wordBytes() < card.wordsOffset) std::abort();
  (void)PeerInbox::open(card, layout, 1, world.device);
  ResidentCard resident;
  input->spoil(&resident);
  std::string bytes(reinterpret_cast<const char*>(&resident), sizeof resident);
  if (input->byte() > 192) bytes.resize(input->byte());
  (void)residentCardIn(bytes);
}

}  // namespace

// The driver of the tests remembers what was mapped, which libFuzzer would take for leaks: it looks for them at the
// end.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static char flag[] = "-detect_leaks=0";
  static std::vector<char*> all(*argv, *argv + *argc);
  all.insert(all.begin() + 1, flag);  // before the user's, which count
  *argc = static_cast<int>(all.size());
  all.push_back(nullptr);
  *argv = all.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const world = new World;
  Input input(data, size);
  const bool reads = input.byte() >= 240;
  openCards(*world, &input);
  if (reads) readLent(*world, &input);
  return 0;
}
