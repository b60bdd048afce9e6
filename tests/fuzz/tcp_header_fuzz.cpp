// What a peer may put in front of a message, and what it may call its address.
//
// Anything is either refused or, encoded again, the same; a stream of such bytes never makes an endpoint write beyond
// the memory it was given, which the address sanitizer watches.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "src/base/assert.hpp"
#include "transport/tcp/endpoint.hpp"
#include "transport/tcp/transport.hpp"

using namespace tutti;

namespace {

void fuzzHeader(std::span<const std::byte> data) {
  if (data.size() < tcp::kHeaderBytes) return;
  const Result<tcp::Header> header = tcp::decodeHeader(data.first<tcp::kHeaderBytes>(), tcp::kMaxSockets);
  if (!header.ok()) return;
  const tcp::HeaderBytes again = tcp::encodeHeader(*header);
  TUTTI_ASSERT(std::memcmp(again.data(), data.data(), again.size()) == 0);
}

void fuzzAddress(std::span<const std::byte> data) {
  const Address address(reinterpret_cast<const char*>(data.data()), data.size());
  const Result<TcpOptions> options = decodeTcpAddress(address);
  if (!options.ok()) return;
  const Result<TcpOptions> again = decodeTcpAddress(encodeTcpAddress(*options));
  TUTTI_ASSERT(again.ok() && again->nSockets == options->nSockets && again->slotBytes == options->slotBytes);
}

void fuzzEndpoint(std::span<const std::byte> data) {
  constexpr size_t kSlotBytes = 256;
  int fds[2];
  TUTTI_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  const Fd sender(fds[1]);
  std::vector<Fd> sockets;
  sockets.emplace_back(fds[0]);
  tcp::TcpEndpoint endpoint(1, 0, std::move(sockets), kSlotBytes, nullptr);
  if (::write(sender.get(), data.data(), data.size()) < 0) return;
  std::vector<std::byte> out(kSlotBytes);
  for (int i = 0; i < 8; ++i) {
    const std::optional<Fingerprint> call = endpoint.pending();
    if (!endpoint.progress().ok()) return;
    const Expect expect{data.empty() ? 0 : std::to_integer<size_t>(data[8 % data.size()]),
                        call.value_or(Fingerprint{})};
    if (!endpoint.receive(out.data(), expect).ok()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  fuzzHeader(bytes);
  fuzzAddress(bytes);
  if (size <= 4096) fuzzEndpoint(bytes);
  return 0;
}
