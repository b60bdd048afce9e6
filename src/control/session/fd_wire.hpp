// What the two ends of the descriptor exchange share: names, messages and proofs.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "src/control/bootstrap_node.hpp"

namespace tutti::fdwire {

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = Secret::kBytes;
inline constexpr size_t kCommIdBytes = std::tuple_size_v<CommId>;
/// A request: communicator, nonce, proof, key.
inline constexpr size_t kRequestHeadBytes = kCommIdBytes + kNonceBytes + kProofBytes;

/// The abstract address of a server; returns its length.
socklen_t abstractAddress(std::string_view name, sockaddr_un* address);
std::string randomText(size_t bytes);
/// The key for proofs, so that no proof can be mistaken for another use of the communicator's secret.
Secret proofSecret(const Secret& communicator);
/// HMAC over both nonces and the key; who is "client" or "server".
std::string proof(const Secret& secret, std::string_view who, std::string_view serverNonce,
                  std::string_view clientNonce, std::string_view key);
/// In constant time.
bool sameBytes(std::string_view a, std::string_view b);
/// The process at the other end runs as this user, or as root.
bool sameUser(int socket);

}  // namespace tutti::fdwire
