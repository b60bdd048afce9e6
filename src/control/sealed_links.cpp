#include "src/control/sealed_links.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/sha256.hpp"
#include "src/control/wire.hpp"

namespace tutti {
namespace {

/// In constant time.
bool sameTag(std::string_view a, std::string_view b) {
  Digest left{}, right{};
  std::copy(a.begin(), a.end(), left.begin());
  std::copy(b.begin(), b.end(), right.begin());
  return sameDigest(left, right);
}

}  // namespace

Sealer::Sealer(Secret key, bool encrypts)
    : key_(std::move(key)), gcm_(encrypts ? std::make_unique<Gcm>(key_) : nullptr) {}

std::string Sealer::tagOf(std::string_view message) const {
  Writer numbered;
  numbered.u64(next_);
  numbered.raw(message.data(), message.size());
  const Digest mac = hmacSha256(key_.view(), numbered.str());
  return {reinterpret_cast<const char*>(mac.data()), kSealBytes};
}

std::string Sealer::seal(std::string_view message) {
  std::string sealed(message);
  if (gcm_ == nullptr) {
    sealed += tagOf(message);
  } else {
    gcm_->beginSeal({.number = next_});
    gcm_->transform(sealed.data(), sealed.data(), sealed.size());
    const Gcm::Tag tag = gcm_->endSeal();
    sealed.append(reinterpret_cast<const char*>(tag.data()), tag.size());
  }
  ++next_;
  return sealed;
}

Result<std::string> Sealer::open(std::string_view sealed) {
  const auto wrong = [&] {
    return remoteError(ErrorCode::DataDamaged, "message ", next_,
                       " is not as it was sent (wrong tag): something between damages or forges it");
  };
  if (sealed.size() < kSealBytes) return wrong();
  std::string message(sealed.substr(0, sealed.size() - kSealBytes));
  const std::string_view tag = sealed.substr(message.size());
  if (gcm_ == nullptr) {
    if (!sameTag(tag, tagOf(message))) return wrong();
  } else {
    Gcm::Tag bytes;
    std::memcpy(bytes.data(), tag.data(), bytes.size());
    gcm_->beginOpen({.number = next_});
    gcm_->transform(message.data(), message.data(), message.size());
    if (!gcm_->endOpen(bytes)) return wrong();
  }
  ++next_;
  return message;
}

void SealedLinks::protect(LinkId link, const DirectionKeys& keys, bool encrypts) {
  links_.try_emplace(link, Ends{keys, Sealer(keys.send, encrypts), Sealer(keys.receive, encrypts)});
}

Result<std::string> SealedLinks::open(LinkId link, std::string_view sealed) {
  const auto ends = links_.find(link);
  return ends == links_.end() ? Result<std::string>(std::string(sealed)) : ends->second.receive.open(sealed);
}

void SealedLinks::send(LinkId link, std::string_view message) {
  const auto ends = links_.find(link);
  if (ends == links_.end()) return below_.send(link, message);
  below_.send(link, ends->second.send.seal(message));
}

void SealedLinks::close(LinkId link) {
  links_.erase(link);
  below_.close(link);
}

void SealedLinks::drop(LinkId link) {
  links_.erase(link);
  below_.drop(link);
}

void SealedLinks::handOver(LinkId link, const std::string& streamKey, const DirectionKeys& none) {
  const auto ends = links_.find(link);
  const DirectionKeys keys = ends == links_.end() ? none : ends->second.keys;
  links_.erase(link);
  below_.handOver(link, streamKey, keys);
}

}  // namespace tutti
