// The TCP connections of tutti-doctor between two hosts: blocking, each step with a time limit.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"
#include "src/control/session/address.hpp"

namespace tutti::doctor {

inline constexpr int kStepMs = 3000;
inline constexpr int kServePort = 29600;
/// What each end says first; the number goes up when the exchange changes.
inline constexpr std::string_view kGreeting = "tutti-doctor 1";

/// Connected to `to`; steps on it are limited to kStepMs.  Errors: SystemError with the errno's text, Timeout.
Result<Fd> dial(const SocketAddress& to);
/// Listens there; port 0: any.  Errors: SystemError.
Result<Fd> listenOn(const SocketAddress& at);
/// Where a socket listens.
SocketAddress boundTo(int fd);
/// The next connection to any of these; the first that comes.  Errors: Timeout after timeoutMs (-1: none), SystemError.
Result<Fd> acceptOne(const std::vector<Fd>& listening, int timeoutMs);

/// Errors of these: RemoteError: the other end is gone; Timeout.
Status sendLine(int fd, std::string_view line);
/// Without its newline; at most 4096 bytes.
Result<std::string> readLine(int fd);

/// What an address does for connections that are made to it.
struct Echoed {
  double roundTripUs = 0;  // of 8 bytes, the best of some
  double GBps = 0;         // there and back, of a large message
};
/// Sends small and large messages, and has them back from echo() at the other end.
/// Errors: those above, saying whether small messages passed and large ones did not.
Result<Echoed> measure(int fd);
/// Sends back what comes, until the other end closes or is silent for kStepMs.
void echo(int fd);

}  // namespace tutti::doctor
