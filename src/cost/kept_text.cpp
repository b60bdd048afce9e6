#include "src/cost/kept_text.hpp"

#include <algorithm>

#include "src/base/text.hpp"

namespace tutti {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return text.substr(first, std::min<size_t>(200, text.find_last_not_of(' ') + 1 - first));
}

std::string machineLines(const MachineIdentity& machine) {
  return cat("cpu ", machine.cpu, "\ncores ", machine.cores, "\nhost ", machine.host, "\n");
}

bool isOfMachine(std::string_view key) { return key == "cpu" || key == "cores" || key == "host"; }

bool parseMachineLine(std::string_view key, std::string_view rest, MachineIdentity* into) {
  if (key == "cores") return parseNumber(rest, 1, 1 << 20, &into->cores);
  (key == "cpu" ? into->cpu : into->host) = std::string(rest);
  return !rest.empty() && printable(std::string(rest)) == rest;
}

Status saysWhose(const MachineIdentity& machine) {
  const bool all = !machine.cpu.empty() && !machine.host.empty() && machine.cores != 0;
  return all ? Status()
             : invalidArgument(ErrorCode::KeptFigures, "does not say which machine it is of (cpu, cores, host)");
}

Status parseKeptText(std::string_view text, const std::string& head,
                     const std::function<bool(std::string_view key, std::string_view rest)>& line) {
  if (!text.starts_with(head + "\n"))
    return invalidArgument(ErrorCode::KeptFigures, "does not begin with \"", head, "\"");
  if (!text.ends_with("\nend\n")) return invalidArgument(ErrorCode::KeptFigures, "is cut short: no \"end\"");
  const std::string_view body = text.substr(head.size() + 1, text.size() - head.size() - 5);
  int number = 2;
  for (size_t at = 0; at < body.size(); ++number) {
    const size_t stop = body.find('\n', at);
    const std::string_view whole = body.substr(at, stop - at);
    const size_t space = whole.find(' ');
    if (space == std::string_view::npos || !line(whole.substr(0, space), whole.substr(space + 1))) {
      return invalidArgument(ErrorCode::KeptFigures, "line ", number, " is not understood: \"",
                             printable(std::string(whole)), "\"");
    }
    at = stop + 1;
  }
  return {};
}

}  // namespace tutti
