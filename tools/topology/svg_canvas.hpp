// Shapes and words of an SVG picture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double middle() const { return x + width / 2; }
};

struct Ink {
  const char* fill = "none";
  const char* stroke = "none";
  double width = 1;
  double opacity = 1;
  bool dashed = false;
};

/// Colors of words.
inline constexpr const char *kQuiet = "#6b7280", *kDark = "#2b2f36";

struct Font {
  double size = 11;
  const char* color = kDark;
  bool bold = false;
  const char* anchor = "start";  // start, middle, end
};

class Canvas {
 public:
  void rect(const Box& box, const Ink& ink, double radius = 4, std::string_view tooltip = {});
  void line(double x1, double y1, double x2, double y2, const Ink& ink, std::string_view tooltip = {});
  /// A cubic curve that leaves both ends vertically.
  void curve(double x1, double y1, double x2, double y2, double depth, const Ink& ink, std::string_view tooltip = {});
  /// A line with its head in the middle, where ends would hide it under what they lead to.
  void arrow(double x1, double y1, double x2, double y2, const Ink& ink, std::string_view tooltip = {});
  void circle(double x, double y, double radius, const Ink& ink, std::string_view tooltip = {});
  void text(double x, double y, std::string_view words, const Font& font);
  /// The first of the texts that fits the width; nothing if none does.
  void fitted(double x, double y, double width, const std::vector<std::string>& texts, const Font& font);

  /// The whole document.
  std::string finish(double width, double height) const;

  /// About how wide the words are in a sans-serif font.
  static double widthOf(std::string_view words, const Font& font);

 private:
  std::string body_;
};

}  // namespace tutti::topology
