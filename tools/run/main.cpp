// tutti-run: starts the ranks of a program on this host.  See tools/README.md.
#include <cstdio>
#include <string>

#include "tools/run/job.hpp"
#include "tools/run/launcher.hpp"
#include "tutti/tutti.h"

namespace {

std::string hex(const tuttiUniqueId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (char c : id.internal) {
    const unsigned char byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const tutti::run::ParsedJob parsed = tutti::run::parseJob(argc, argv);
  if (!parsed.job) {
    std::fputs(parsed.text.c_str(), parsed.exitCode == 0 ? stdout : stderr);
    return parsed.exitCode;
  }
  tutti::run::Launcher launcher(*parsed.job);
  tuttiUniqueId id;  // this process serves the rendezvous as long as it lives
  // All ranks are here, so that nobody else need reach it; where the loopback interface is down, they meet as others.
  bool open = tuttiSetDefault("TUTTI_SOCKET_IFNAME", "=lo") == tuttiSuccess && tuttiGetUniqueId(&id) == tuttiSuccess;
  if (!open)
    open = tuttiSetDefault("TUTTI_SOCKET_IFNAME", nullptr) == tuttiSuccess && tuttiGetUniqueId(&id) == tuttiSuccess;
  if (!open) {
    std::fprintf(stderr, "tutti-run: cannot open a rendezvous: %s\n", tuttiGetLastError(nullptr));
    return 1;
  }
  // Ranks that wait for one that has ended before it came hear so.
  return launcher.run(hex(id), [&](int rank, const std::string& how) { (void)tuttiRankEnded(id, rank, how.c_str()); });
}
