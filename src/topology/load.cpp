#include "src/topology/load.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "src/topology/hwloc_import.hpp"
#include "src/topology/named_machines.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/one_line.hpp"

namespace tutti::topology {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

/// The name of the document's element, as far as a glance shows it: past declaration, comments and document type.
std::string_view rootTag(std::string_view text) {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    if (rest.starts_with("!--")) {
      at = text.find("-->", at);
      if (at == std::string_view::npos) return {};
    } else if (!rest.starts_with("?") && !rest.starts_with("!")) {
      return rest.substr(0, rest.find_first_of(" \t\r\n/>"));
    }
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

Result<Graph> parseTopology(std::string_view text, const std::string& origin) {
  const std::string_view plain = trimmed(text);
  if (plain.empty()) return invalidArgument(ErrorCode::TopologyFile, origin, ": empty");
  if (plain.front() == '<' || plain.starts_with("\xef\xbb\xbf<")) {
    return rootTag(plain) == "topology" ? readHwlocXml(text, origin) : readNcclXml(text, origin);
  }
  if (plain.starts_with("hwloc ")) return parseHwlocSynthetic(std::string(trimmed(plain.substr(6))));
  return parseOneLine(plain);
}

Result<Graph> loadTopology(const std::string& fileOrText) {
  struct stat info {};
  const bool exists = ::stat(fileOrText.c_str(), &info) == 0;
  const bool named = findNamedMachine(fileOrText) != nullptr;
  if (!exists && (named || fileOrText.find(':') != std::string::npos)) return parseTopology(fileOrText, "topology");
  if (exists && S_ISDIR(info.st_mode))
    return invalidUsage(ErrorCode::TopologyUnreadable, fileOrText, " is a folder, not a description of a machine");
  std::ifstream file(fileOrText, std::ios::binary);
  if (!file)
    return invalidUsage(ErrorCode::TopologyUnreadable, "cannot read the topology file ", fileOrText, ": ",
                        std::strerror(errno));
  std::string text;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
    if (text.size() > kMostBytes)
      return invalidArgument(ErrorCode::TopologyTooLarge, fileOrText, ": larger than ", kMostBytes, " bytes");
  }
  return parseTopology(text, fileOrText);
}

}  // namespace tutti::topology
