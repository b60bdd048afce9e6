#include "tools/topology/svg_canvas.hpp"

#include <cmath>
#include <cstdio>

#include "src/base/text.hpp"

namespace tutti::topology {
namespace {

/// Coordinates with a tenth of a pixel: short files, the same on every machine.
std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string result = text;
  if (result.ends_with(".0")) result.resize(result.size() - 2);
  return result == "-0" ? "0" : result;
}

std::string attribute(const char* name, const std::string& value) { return cat(" ", name, "=\"", value, "\""); }

std::string style(const Ink& ink) {
  std::string text = attribute("fill", ink.fill);
  if (std::string_view(ink.stroke) != "none") {
    text += attribute("stroke", ink.stroke) + attribute("stroke-width", coordinate(ink.width));
  }
  if (ink.opacity < 1) text += attribute("opacity", coordinate(ink.opacity));
  if (ink.dashed) text += attribute("stroke-dasharray", "5 3");
  return text;
}

std::string closing(const char* tag, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return cat("><title>", toXml(tooltip), "</title></", tag, ">\n");
}

}  // namespace

void Canvas::rect(const Box& b, const Ink& ink, double radius, std::string_view tooltip) {
  body_ += cat("<rect", attribute("x", coordinate(b.x)), attribute("y", coordinate(b.y)),
               attribute("width", coordinate(b.width)), attribute("height", coordinate(b.height)),
               attribute("rx", coordinate(radius)), style(ink), closing("rect", tooltip));
}

void Canvas::line(double x1, double y1, double x2, double y2, const Ink& ink, std::string_view tooltip) {
  body_ += cat("<line", attribute("x1", coordinate(x1)), attribute("y1", coordinate(y1)),
               attribute("x2", coordinate(x2)), attribute("y2", coordinate(y2)), style(ink), closing("line", tooltip));
}

void Canvas::curve(double x1, double y1, double x2, double y2, double depth, const Ink& ink, std::string_view tooltip) {
  const double nearEnd = y2 > y1 ? y2 - depth : y2 + depth;
  const std::string path =
      cat("M", coordinate(x1), " ", coordinate(y1), " C", coordinate(x1), " ", coordinate(y1 + depth), " ",
          coordinate(x2), " ", coordinate(nearEnd), " ", coordinate(x2), " ", coordinate(y2));
  body_ += cat("<path", attribute("d", path), style(ink), closing("path", tooltip));
}

void Canvas::arrow(double x1, double y1, double x2, double y2, const Ink& ink, std::string_view tooltip) {
  line(x1, y1, x2, y2, ink, tooltip);
  const double length = std::sqrt((x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1));
  if (!(length > 0)) return;
  const double dx = (x2 - x1) / length, dy = (y2 - y1) / length, size = 2.5 + 1.5 * ink.width;
  const double tipX = (x1 + x2 + dx * size) / 2, tipY = (y1 + y2 + dy * size) / 2;
  const auto corner = [&](double side) {
    return cat(" L", coordinate(tipX - dx * size + side * dy * size / 2), " ",
               coordinate(tipY - dy * size - side * dx * size / 2));
  };
  const std::string path = cat("M", coordinate(tipX), " ", coordinate(tipY), corner(1), corner(-1), " Z");
  body_ += cat("<path", attribute("d", path), style({ink.stroke, "none", 1, ink.opacity, false}), "/>\n");
}

void Canvas::circle(double x, double y, double radius, const Ink& ink, std::string_view tooltip) {
  body_ += cat("<circle", attribute("cx", coordinate(x)), attribute("cy", coordinate(y)),
               attribute("r", coordinate(radius)), style(ink), closing("circle", tooltip));
}

void Canvas::text(double x, double y, std::string_view words, const Font& font) {
  body_ += cat("<text", attribute("x", coordinate(x)), attribute("y", coordinate(y)),
               attribute("font-size", coordinate(font.size)), attribute("fill", font.color));
  if (font.bold) body_ += attribute("font-weight", "bold");
  if (std::string_view(font.anchor) != "start") body_ += attribute("text-anchor", font.anchor);
  body_ += cat(">", toXml(words), "</text>\n");
}

void Canvas::fitted(double x, double y, double width, const std::vector<std::string>& texts, const Font& font) {
  for (const std::string& words : texts) {
    if (widthOf(words, font) > width) continue;
    text(x, y, words, font);
    return;
  }
}

double Canvas::widthOf(std::string_view words, const Font& font) {
  return static_cast<double>(words.size()) * font.size * (font.bold ? 0.62 : 0.56);
}

std::string Canvas::finish(double width, double height) const {
  const std::string w = coordinate(width), h = coordinate(height);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\"", attribute("width", w), attribute("height", h),
             attribute("viewBox", cat("0 0 ", w, " ", h)),
             attribute("font-family", "Helvetica, Arial, DejaVu Sans, sans-serif"), ">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", body_, "</svg>\n");
}

}  // namespace tutti::topology
