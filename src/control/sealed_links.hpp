// What proven links carry, under tags: every message with its number, so that one that was changed, left out, repeated
// or put elsewhere on its way is known as such.
//
//   tags        message | first 16 bytes of HMAC-SHA256(key, number 8 | message)
//   encryption  AES-256-GCM(key, nonce: number, message) | tag 16
//
// The keys are those of the link's handshake (handshake.hpp), one for each direction; numbers count from 0 and do not
// travel, since TCP keeps the order.  Damage that TCP's own checksum lets through ends a link like that of an enemy.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "src/base/gcm.hpp"
#include "src/control/network.hpp"

namespace tutti {

/// What a message is longer by.
inline constexpr size_t kSealBytes = 16;

/// One direction of a link.
class Sealer {
 public:
  Sealer(Secret key, bool encrypts);
  std::string seal(std::string_view message);
  /// Errors: RemoteError: it is not what the peer sealed next.
  Result<std::string> open(std::string_view sealed);

 private:
  std::string tagOf(std::string_view message) const;

  Secret key_;
  std::unique_ptr<Gcm> gcm_;  // null: tags alone
  uint64_t next_ = 0;
};

/// The network below, with the seals on.  Links are as they were until protect().
class SealedLinks final : public Network {
 public:
  explicit SealedLinks(Network& below) : below_(below) {}

  /// From now on both directions of the link are sealed.
  void protect(LinkId link, const DirectionKeys& keys, bool encrypts);
  /// What a message that came by a protected link says.  Errors: RemoteError, after which the link is of no more use.
  Result<std::string> open(LinkId link, std::string_view sealed);
  void forget(LinkId link) { links_.erase(link); }

  int64_t nowNs() override { return below_.nowNs(); }
  void randomBytes(std::span<std::byte> out) override { below_.randomBytes(out); }
  LinkId dial(const ControlAddress& to) override { return below_.dial(to); }
  void send(LinkId link, std::string_view message) override;
  void close(LinkId link) override;
  void drop(LinkId link) override;
  bool silent(LinkId link) override { return below_.silent(link); }
  size_t mostStrangers() const override { return below_.mostStrangers(); }
  /// Its keys go with it.
  void handOver(LinkId link, const std::string& streamKey, const DirectionKeys& none = {}) override;

 private:
  struct Ends {
    DirectionKeys keys;
    Sealer send, receive;
  };
  Network& below_;
  std::map<LinkId, Ends> links_;
};

}  // namespace tutti
