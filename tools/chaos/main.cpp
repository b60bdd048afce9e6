// tutti-chaos: a TCP relay that misbehaves by seed.  See tools/README.md.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <tuple>

#include "src/base/clock.hpp"
#include "tools/chaos/relay.hpp"
#include "tools/sentence.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::chaos;

int signalPipe[2] = {-1, -1};

void onSignal(int number) {
  const char* const line = number == SIGUSR1 ? "cut\n" : number == SIGUSR2 ? "heal\n" : "quit\n";
  (void)!::write(signalPipe[1], line, number == SIGUSR1 ? 4 : 5);
}

Status listenToSignals() {
  if (::pipe(signalPipe) != 0) return errnoError(errno, "cannot open a pipe");
  struct sigaction action {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGUSR1, SIGUSR2, SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  return {};
}

/// "HOST:PORT", "[ADDRESS]:PORT"; the first address of the name.
Result<SocketAddress> lookUp(const std::string& option, const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !parseNumber(text.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return invalidArgument(option, " '", text,
                           "' is not HOST:PORT, such as 10.0.0.7:4021, [fd00::7]:4021 or node1:29500");
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  TUTTI_ASSIGN(const std::vector<SocketAddress> all, resolveHost(host, port));
  return all.front();
}

struct Texts {
  std::string listen, to;
  std::vector<std::string> only;
  std::string split = "0", coalesce = "0", bandwidth = "0", stall = "0", flip = "0", close = "0", reset = "0";
  bool quiet = false;
};

Status readSizes(const Texts& texts, Misdeeds* misdeeds) {
  for (const auto& [name, text, value] : {std::tuple("--split", &texts.split, &misdeeds->splitBytes),
                                          std::tuple("--coalesce", &texts.coalesce, &misdeeds->coalesceBytes),
                                          std::tuple("--bandwidth", &texts.bandwidth, &misdeeds->bandwidth),
                                          std::tuple("--stall-every", &texts.stall, &misdeeds->stallEvery),
                                          std::tuple("--flip-every", &texts.flip, &misdeeds->flipEvery),
                                          std::tuple("--close-every", &texts.close, &misdeeds->closeEvery),
                                          std::tuple("--reset-every", &texts.reset, &misdeeds->resetEvery)}) {
    if (!parseBytes(*text, value) || *value > size_t{1} << 40) {
      return invalidArgument(name, " '", *text, "' is not a size such as 1000, 64K or 1M");
    }
  }
  if (misdeeds->splitBytes > 0 && misdeeds->coalesceBytes > 0) {
    return invalidArgument("--split and --coalesce exclude each other");
  }
  return {};
}

Result<RelayOptions> readOptions(const Texts& texts, RelayOptions options) {
  TUTTI_TRY(readSizes(texts, &options.misdeeds));
  TUTTI_ASSIGN(options.listen, lookUp("--listen", texts.listen));
  if (!texts.to.empty()) {
    TUTTI_ASSIGN(options.to, lookUp("--to", texts.to));
  }
  for (const std::string& name : texts.only) {
    TUTTI_ASSIGN(const Purpose purpose, parsePurpose(name));
    options.only.insert(purpose);
  }
  options.commands = {STDIN_FILENO, signalPipe[0]};
  if (texts.quiet) return options;
  options.log = [begin = nowNs()](const std::string& line) {
    std::fprintf(stderr, "tutti-chaos %.3f: %s\n", static_cast<double>(nowNs() - begin) / 1e9, line.c_str());
  };
  return options;
}

void addOptions(CLI::App& app, Texts& texts, RelayOptions& options) {
  Misdeeds& m = options.misdeeds;
  app.add_option("--listen", texts.listen, "ADDRESS:PORT to take connections on; port 0: any, which is printed")
      ->required();
  app.add_option("--to", texts.to,
                 "ADDRESS:PORT they go on to; without it, where each was going before nft or iptables redirected it");
  app.add_option("--seed", m.seed, "decides what is done to which byte")->capture_default_str();
  app.add_option("--only", texts.only,
                 "leave alone all but these connections of Tutti's: rendezvous, overlay, stream (the data), summon, "
                 "agreement, recall (for an overlay connection that broke)")
      ->delimiter(',');
  app.add_option("--delay", m.delayMs, "milliseconds on the way")->check(CLI::Range(0.0, 1e6));
  app.add_option("--jitter", m.jitterMs, "up to so many milliseconds more, drawn for each piece")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--split", texts.split, "pieces of 1 to BYTES leave one by one");
  app.add_option("--coalesce", texts.coalesce, "BYTES leave together, or what has come in 20 ms");
  app.add_option("--bandwidth", texts.bandwidth, "the most BYTES a second, each way of each connection");
  app.add_option("--stall-every", texts.stall, "nothing moves for --stall-ms, every BYTES on average");
  app.add_option("--stall-ms", m.stallMs, "")->check(CLI::Range(0.0, 1e6))->capture_default_str();
  app.add_option("--flip-every", texts.flip, "one bit is wrong, every BYTES on average");
  app.add_option("--close-every", texts.close, "one direction ends, every BYTES on average");
  app.add_option("--reset-every", texts.reset, "the connection is reset, every BYTES on average");
  app.add_option("--most", options.most, "flips, closes and resets in all; 0: no limit")->capture_default_str();
  app.add_flag("--quiet", texts.quiet, "no line for each deed");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A TCP relay that misbehaves, the same way for the same seed", "tutti-chaos");
  app.footer(
      "Standard input takes commands, a line each: cut, heal, reset, close, refuse, quit.\n"
      "Signals: USR1 cuts, USR2 heals, INT and TERM end it.");
  app.set_version_flag("--version", programVersion("tutti-chaos"), "print the version");
  Texts texts;
  RelayOptions given;
  addOptions(app, texts, given);
  CLI11_PARSE(app, argc, argv);
  const auto fail = [](const Status& why) {
    return std::fprintf(stderr, "tutti-chaos: %s\n", sentence(why).c_str()), 1;
  };
  if (const Status status = listenToSignals(); !status.ok()) return fail(status);
  Result<RelayOptions> options = readOptions(texts, std::move(given));
  if (!options.ok()) return fail(options.status());
  Result<std::unique_ptr<Relay>> relay = Relay::open(std::move(*options));
  if (!relay.ok()) return fail(relay.status());
  std::printf("listening on %s\n", (*relay)->address().text().c_str());
  std::fflush(stdout);
  const Status status = (*relay)->run();
  return status.ok() ? 0 : fail(status);
}
