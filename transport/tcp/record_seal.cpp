#include "transport/tcp/record_seal.hpp"

#include <endian.h>

#include <array>
#include <cstring>

namespace tutti::tcp {
namespace {

// Kinds of nonces.
constexpr uint32_t kData = 0, kControl = 1;

}  // namespace

void RecordSeal::begin(uint64_t position, uint64_t consumed, Gcm* gcm, bool seals) {
  const Gcm::Nonce nonce{kData, position};
  seals ? gcm->beginSeal(nonce) : gcm->beginOpen(nonce);
  const uint64_t said = htole64(consumed);
  gcm->authenticate(&said, sizeof said);
}

void RecordSeal::put(std::byte* dst, const std::byte* src, size_t bytes) {
  if (encrypts_) return send_.transform(dst, src, bytes);
  std::memcpy(dst, src, bytes);
  send_.authenticate(dst, bytes);
}

void RecordSeal::open(std::byte* bytes, size_t n) {
  encrypts_ ? receive_.transform(bytes, bytes, n) : receive_.authenticate(bytes, n);
}

Gcm::Tag RecordSeal::sealControl(std::span<const std::byte> head, uint32_t number) {
  send_.beginSeal({kControl, number});
  send_.authenticate(head.data(), head.size());
  return send_.endSeal();
}

bool RecordSeal::openControl(std::span<const std::byte> head, uint32_t number, const Gcm::Tag& tag) {
  receive_.beginOpen({kControl, number});
  receive_.authenticate(head.data(), head.size());
  if (!receive_.endOpen(tag) || number <= received_) return false;
  received_ = number;
  return true;
}

}  // namespace tutti::tcp
