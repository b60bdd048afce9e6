#include "src/parallel/grid_text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "src/parallel/fail.hpp"

namespace tutti::parallel {

std::vector<std::string> splitText(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<Axis> parsePairs(const std::string& text) {
  std::vector<Axis> axes;
  for (const std::string& part : splitText(text, ',')) {
    const size_t equals = part.find('=');
    require(equals != std::string::npos && equals > 0, "\"", part, "\" is not an axis: name=size");
    Axis axis{part.substr(0, equals), 0};
    for (const char c : axis.name) {
      require(std::isalnum(static_cast<unsigned char>(c)) || c == '_', "axis name ", axis.name, " has a ", c);
    }
    const char *first = part.c_str() + equals + 1, *last = part.c_str() + part.size();
    const auto [end, error] = std::from_chars(first, last, axis.size);
    require(error == std::errc() && end == last && first != last && axis.size >= 0, "\"", part,
            "\": the size is not a number");
    for (const Axis& other : axes) require(other.name != axis.name, "axis ", axis.name, " comes twice in ", text);
    axes.push_back(axis);
  }
  return axes;
}

std::vector<Axis> parseAxes(const std::string& text, int nRanks) {
  std::vector<Axis> axes = parsePairs(text);
  int64_t product = 1;
  Axis* open = nullptr;
  for (Axis& axis : axes) {
    if (axis.size == 0) {
      require(open == nullptr, "two axes of ", text, " have no size");
      open = &axis;
    } else {
      require(axis.size <= nRanks, "axis ", axis.name, " is longer than the ", nRanks, " ranks");
      product *= axis.size;
      require(product <= nRanks, "the axes ", text, " need more ranks than the ", nRanks, " that there are");
    }
  }
  if (open != nullptr) {
    require(nRanks % product == 0, "the axes ", text, " do not divide ", nRanks, " ranks: ", nRanks % product,
            " would be left");
    open->size = static_cast<int>(nRanks / product);
    product = nRanks;
  }
  require(product == nRanks, "the axes ", text, " take ", product, " of ", nRanks, " ranks");
  return axes;
}

}  // namespace tutti::parallel
