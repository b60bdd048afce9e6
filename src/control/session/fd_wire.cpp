#include "src/control/session/fd_wire.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/random.hpp"

namespace tutti::fdwire {

socklen_t abstractAddress(std::string_view name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);  // a leading zero byte makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

std::string randomText(size_t bytes) {
  std::string text(bytes, '\0');
  fillRandom(std::as_writable_bytes(std::span(text)));
  return text;
}

Secret proofSecret(const Secret& communicator) { return deriveSecret(communicator, "descriptor exchange"); }

std::string proof(const Secret& secret, std::string_view who, std::string_view serverNonce,
                  std::string_view clientNonce, std::string_view key) {
  std::string text(who);
  text.append(serverNonce).append(clientNonce).append(key);
  const Secret mac = deriveSecret(secret, text);
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool sameBytes(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool sameUser(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

}  // namespace tutti::fdwire
