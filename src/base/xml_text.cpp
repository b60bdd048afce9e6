#include "src/base/xml_text.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

Status XmlText::parse(std::string_view text, std::string origin) {
  text_ = text;
  origin_ = std::move(origin);
  lineEnds_.clear();
  if (text.size() > kMostBytes) return invalidArgument(kind_, origin_, ": larger than ", kMostBytes, " bytes");
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    lineEnds_.push_back(static_cast<ptrdiff_t>(at));
  }
  const auto result = document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) return invalidArgument(kind_, origin_, ":", lineAt(result.offset), ": not XML: ", result.description());
  if (!root()) return invalidArgument(kind_, origin_, ":1: not XML: there is no element");
  return checkCharacters();
}

// Control characters, raw or as references, have no place in XML 1.0 (section 2.2) and could not be written again;
// pugixml does not look for them.
Status XmlText::checkCharacters() const {
  const auto isControl = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  // In document order, without a stack: files may be deep.
  for (pugi::xml_node node = root(); node;) {
    for (const pugi::xml_attribute a : node.attributes()) {
      for (const std::string_view text : {std::string_view(a.name()), std::string_view(a.value())}) {
        if (std::any_of(text.begin(), text.end(), isControl)) {
          return error(node, "an attribute has a control character, which XML does not allow");
        }
      }
    }
    pugi::xml_node next = node.first_child();
    for (; node && !next; node = node.parent()) next = node.next_sibling();
    node = next;
  }
  return {};
}

int XmlText::lineAt(ptrdiff_t offset) const {
  const auto before = std::lower_bound(lineEnds_.begin(), lineEnds_.end(), offset);
  return 1 + static_cast<int>(before - lineEnds_.begin());
}

namespace {

template <class T>
bool parseWhole(std::string_view text, T* value) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  return parseNumber(text, value, hex ? 16 : 10);
}

}  // namespace

Result<int64_t> XmlText::integer(pugi::xml_node node, const char* name, int64_t absent, int64_t least,
                                 int64_t most) const {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute) return absent;
  int64_t value = 0;
  if (!parseWhole(attribute.value(), &value))
    return error(node, name, "='", attribute.value(), "' is not a whole number");
  if (value < least || value > most) return error(node, name, "=", value, " is outside ", least, "..", most);
  return value;
}

Result<uint64_t> XmlText::hex64(pugi::xml_node node, const char* name) const {
  const pugi::xml_attribute attribute = node.attribute(name);
  uint64_t value = 0;
  if (!attribute || parseWhole(attribute.value(), &value)) return value;
  return error(node, name, "='", attribute.value(), "' is not a number such as 0x1234");
}

Result<double> XmlText::number(pugi::xml_node node, const char* name, double absent) const {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute) return absent;
  const std::string_view text = attribute.value();
  double value = 0;
  if (!parseNumber(text, &value) || !std::isfinite(value) || value < 0 || value > 1e12) {
    return error(node, name, "='", text, "' is not a number of at least 0");
  }
  return value;
}

}  // namespace tutti
