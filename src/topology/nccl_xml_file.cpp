#if TUTTI_HAVE_PUGIXML
#include "src/topology/nccl_xml_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <optional>

namespace tutti::topology {
namespace {

/// What strtol makes of it; nothing if no number is at its beginning.
std::optional<long long> leadingInteger(const char* text) {
  char* end = nullptr;
  errno = 0;
  const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const long long value = std::strtoll(text, &end, hex ? 16 : 10);
  if (end == text || errno != 0) return std::nullopt;
  return value;
}

/// "<pci> 0000:c5:00.0", on one line and of a length that a sentence can have.
std::string tagOf(pugi::xml_node e, const std::string& subject) {
  constexpr size_t kTagBytes = 100;
  std::string text = subject.empty() ? cat("<", e.name(), ">") : cat("<", e.name(), "> ", subject);
  if (text.size() > kTagBytes) text = text.substr(0, kTagBytes) + "...";
  for (char& c : text) c = c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return text;
}

}  // namespace

Status NcclFile::open(std::string_view text, const std::string& origin) {
  TUTTI_TRY(xml_.parse(text, origin));
  const std::string_view name = root().name();
  if (name == "graphs") {
    return error(root(), "this file holds rings and trees (TUTTI_GRAPH_FILE); a topology starts with <system>");
  }
  if (name != "system") return error(root(), "a topology starts with <system>");
  return checkVersion();
}

Status NcclFile::checkVersion() const {
  const Status strict = asStatus(xml_.integer(root(), "version", 1, 1, 2));
  if (strict.ok()) return {};
  const auto loose = leadingInteger(root().attribute("version").value());
  return loose && (*loose == 1 || *loose == 2) ? Status() : strict;
}

int NcclFile::integer(pugi::xml_node e, const char* name, int absent, int least, int most) {
  if (const auto value = xml_.integer(e, name, absent, least, most); value.ok()) return static_cast<int>(*value);
  const char* text = e.attribute(name).value();
  if (*text == '\0') return absent;  // as NCCL writes what it could not find out
  const auto value = leadingInteger(text);
  if (!value || *value < least || *value > most) {
    leaveOut(e, name);
    return absent;
  }
  leftOut_.add(line(e), tagOf(e, cat(name, "='", text, "'")), "is a number with more behind it, which is left out",
               cat("tail ", e.name(), " ", name));
  return static_cast<int>(*value);
}

uint64_t NcclFile::hex64(pugi::xml_node e, const char* name) {
  const auto value = xml_.hex64(e, name);
  if (!value.ok()) leaveOut(e, name);
  return value.ok() ? *value : 0;
}

double NcclFile::number(pugi::xml_node e, const char* name, double absent) {
  const auto value = xml_.number(e, name, absent);
  if (!value.ok()) leaveOut(e, name);
  return value.ok() ? *value : absent;
}

int NcclFile::pciClass(pugi::xml_node e, const char* name) {
  const std::string_view text = e.attribute(name).value();
  if (text.empty()) return -1;
  const int code = integer(e, name, -1, 0, 0xffffff);
  if (code < 0 || !text.starts_with("0x")) return code;
  return text.size() == sizeof "0x03" - 1 ? code << 16 : text.size() == sizeof "0x0302" - 1 ? code << 8 : code;
}

void NcclFile::leaveOut(pugi::xml_node e, const std::string& subject, const std::string& sentence) {
  leftOut_.add(line(e), tagOf(e, subject), sentence, cat(e.name(), " ", sentence));
}

void NcclFile::leaveOut(pugi::xml_node e, const char* attribute) {
  leftOut_.add(line(e), tagOf(e, cat(attribute, "='", e.attribute(attribute).value(), "'")),
               "is not understood: the attribute is left out", cat("attribute ", e.name(), " ", attribute));
}

void NcclFile::remark(pugi::xml_node e, const std::string& subject, const std::string& sentence) {
  remarks_.add(line(e), tagOf(e, subject), sentence, cat(e.name(), " ", sentence));
}

}  // namespace tutti::topology
#endif
