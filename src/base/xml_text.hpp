// Attributes of an XML element as values, with errors that name file, line and tag.  For readers; needs pugixml.
#pragma once

#include <cstdint>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"

namespace tutti {

/// A parsed document that knows where its elements were.
class XmlText {
 public:
  /// Larger texts are refused: no machine needs them.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  /// `kind` is the code of all errors.
  explicit XmlText(ErrorCode kind) : kind_(kind) {}

  /// `origin` is the file name or another word for messages.  The text must outlive this object.
  /// Errors: InvalidArgument "origin:line: ..." for what is not well-formed.
  Status parse(std::string_view text, std::string origin);

  pugi::xml_node root() const { return document_.document_element(); }
  int line(pugi::xml_node node) const { return lineAt(node.offset_debug()); }

  /// "origin:line: <tag>: sentence"
  template <class... Args>
  Status error(pugi::xml_node node, const Args&... args) const {
    return invalidArgument(kind_, origin_, ":", line(node), ": <", node.name(), ">: ", args...);
  }

  /// The attribute as a whole number in [least, most]; decimal, or hexadecimal with 0x.  `absent` without it.
  Result<int64_t> integer(pugi::xml_node node, const char* name, int64_t absent, int64_t least, int64_t most) const;
  Result<uint64_t> hex64(pugi::xml_node node, const char* name) const;  // 0 without it
  /// A finite number of at least 0; `absent` without it.
  Result<double> number(pugi::xml_node node, const char* name, double absent) const;

 private:
  Status checkCharacters() const;
  int lineAt(ptrdiff_t offset) const;

  ErrorCode kind_;
  pugi::xml_document document_;
  std::string_view text_;
  std::string origin_;
  std::vector<ptrdiff_t> lineEnds_;  // offsets of newlines
};

}  // namespace tutti
