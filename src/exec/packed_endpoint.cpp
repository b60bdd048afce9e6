#include "src/exec/packed_endpoint.hpp"

#include "src/base/assert.hpp"
#include "src/exec/reduce/wire.hpp"

namespace tutti {

PackedEndpoint::PackedEndpoint(Endpoint& bytes, const WireCode& code, size_t sliceBytes)
    : bytes_(bytes), code_(code), sliceBytes_(sliceBytes) {
  TUTTI_ASSERT_CMP(packedBytes(sliceBytes), <=, bytes.slotBytes());
}

// Not touched before it is used.
std::byte* PackedEndpoint::room(std::unique_ptr<std::byte[]>* memory) const {
  if (*memory == nullptr) *memory = std::make_unique_for_overwrite<std::byte[]>(sliceBytes_);
  return memory->get();
}

Result<bool> PackedEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (bytes == 0) return bytes_.send(data, 0, call);
  if (!packed_) {
    TUTTI_ASSIGN(const std::span<std::byte> to, bytes_.reserve());
    if (to.empty()) return false;
    packWire(code_.format, code_.dtype, to.data(), data, countOf(bytes));
    packed_ = true;
  }
  TUTTI_ASSIGN(const bool gone, bytes_.commit(packedBytes(bytes), call));
  packed_ = !gone;
  return gone;
}

Result<std::span<std::byte>> PackedEndpoint::reserve() { return std::span(room(&leaving_), sliceBytes_); }

Result<bool> PackedEndpoint::commit(size_t bytes, const Fingerprint& call) { return send(leaving_.get(), bytes, call); }

/// The message as it travels, or null while it has not come.
Result<const std::byte*> PackedEndpoint::arrived(const Expect& expect) {
  const Expect packed{.bytes = packedBytes(expect.bytes), .call = expect.call};
  Result<const std::byte*> message = bytes_.peek(packed);
  if (!message.ok()) seen_ = bytes_.seen();
  return message;
}

Result<const std::byte*> PackedEndpoint::peek(const Expect& expect) {
  if (expect.bytes == 0) return arrived(expect);
  if (!unpacked_) {
    TUTTI_ASSIGN(const std::byte* const message, arrived(expect));
    if (message == nullptr) return message;
    unpackWire(code_.format, code_.dtype, room(&came_), message, countOf(expect.bytes));
    unpacked_ = true;
  }
  return static_cast<const std::byte*>(came_.get());
}

void PackedEndpoint::release() {
  unpacked_ = false;
  bytes_.release();
}

Result<bool> PackedEndpoint::receive(std::byte* dst, const Expect& expect) {
  if (expect.bytes == 0) return bytes_.receive(dst, expect);
  TUTTI_ASSIGN(const std::byte* const message, arrived(expect));
  if (message == nullptr) return false;
  unpackWire(code_.format, code_.dtype, dst, message, countOf(expect.bytes));
  bytes_.release();
  return true;
}

}  // namespace tutti
