// An endpoint whose messages are numbers that travel in a narrower format: packed when they leave, unpacked when they
// have come.  Who uses it sees the numbers only.
#pragma once

#include <memory>

#include "src/base/wire_format.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// How numbers travel.
struct WireCode {
  WireFormat format = WireFormat::Full;
  tuttiDataType_t dtype = tuttiFloat32;
  bool operator==(const WireCode&) const = default;
};

/// Over an endpoint that sends them as bytes, which is borrowed; both ends of it are packed alike.  Fingerprints are
/// the calls' own; sizes that are compared are those on the wire.  Requests wait in the base class's line, and no
/// memory is lent: a message is built where the other endpoint wants it.  Thread and failures: the other endpoint's.
class PackedEndpoint final : public Endpoint {
 public:
  /// code: of a format that isNarrower().  sliceBytes: of the largest message of numbers.
  PackedEndpoint(Endpoint& bytes, const WireCode& code, size_t sliceBytes);

  size_t slotBytes() const override { return sliceBytes_; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  bool takes(const std::byte*, size_t) const override { return false; }
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override { return bytes_.pending(); }

 private:
  size_t countOf(size_t bytes) const { return bytes / dataTypeBytes(code_.dtype); }
  size_t packedBytes(size_t bytes) const { return wireBytes(code_.format, countOf(bytes)); }
  Result<const std::byte*> arrived(const Expect& expect);
  std::byte* room(std::unique_ptr<std::byte[]>* memory) const;

  Endpoint& bytes_;
  const WireCode code_;
  const size_t sliceBytes_;
  // One message each; made when first needed.
  std::unique_ptr<std::byte[]> leaving_, came_;
  bool packed_ = false;    // the message under way lies in the memory that the other endpoint reserved
  bool unpacked_ = false;  // the message that peek() gave lies in came_
};

}  // namespace tutti
