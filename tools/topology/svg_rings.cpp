#include "tools/topology/svg_rings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "src/topology/rates.hpp"
#include "tools/topology/write.hpp"

namespace tutti::topology {
namespace {

constexpr const char* kColors[] = {"#d1495b", "#2e86ab", "#5b9a1f", "#d9822b", "#7a5aa6",
                                   "#2f9e8f", "#b8860b", "#4f6d9a", "#c2559c", "#6b7280"};
constexpr double kWheelGap = 14, kSetHead = 52, kCaption = 30;
constexpr size_t kMostWheels = 24;

const Ink kPanelInk{"#fafbfc", "#d5dbe3", 1, 1, false};
const Ink kWheelInk{"#e4f2cf", "#5b9a1f", 1.4, 1, false};
const Ink kPortInk{"#fde8d0", "#d9822b", 1.2, 1, false};

struct Point {
  double x = 0, y = 0;
};

/// Channels that are the same in the host drawn.
struct Group {
  const Stretch* stretch = nullptr;
  std::vector<size_t> channels;
};

std::vector<Group> groupsOf(const ChannelSet& set) {
  std::vector<Group> groups;
  for (size_t c = 0; c < set.channels.size(); ++c) {
    const Stretch& s = set.channels[c].stretches.front();
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return *g.stretch == s; });
    if (same != groups.end())
      same->channels.push_back(c);
    else
      groups.push_back({&s, {c}});
  }
  return groups;
}

std::string numberOf(const Graph& graph, int node) {
  const std::string& name = graph.nodes[static_cast<size_t>(node)].name;
  const size_t digits = name.find_last_not_of("0123456789");
  return digits == std::string::npos ? name : name.substr(digits + 1);
}

class Wheel {
 public:
  Wheel(Canvas& canvas, const Graph& graph, const Stretch& any, const Box& box)
      : canvas_(canvas), graph_(graph), middle_{box.middle(), box.y + box.height / 2} {
    const double size = std::min(box.width, box.height);
    const double share = size / static_cast<double>(std::max<size_t>(any.devices.size(), 8));
    deviceRadius_ = std::clamp(0.46 * share, 3.0, 13.0);
    outer_ = size / 2 - deviceRadius_ - (any.entry >= 0 ? 2.9 * deviceRadius_ + 2 : 6);
    std::vector<int> devices = any.devices;
    std::sort(devices.begin(), devices.end());
    for (size_t i = 0; i < devices.size(); ++i) angle_[devices[i]] = angleOf(i, devices.size());
  }

  /// Rings that share an edge lie side by side: all that will be drawn are announced first.
  void announce(const Stretch& s) {
    for (size_t i = 0; i + 1 < s.devices.size(); ++i) ++lanes_[pairOf(s.devices[i], s.devices[i + 1])].all;
    if (s.entry < 0) ++lanes_[pairOf(s.devices.back(), s.devices.front())].all;
  }

  void ring(const Stretch& s, const Ink& ink) {
    for (size_t i = 0; i + 1 < s.devices.size(); ++i) edge(s.devices[i], s.devices[i + 1], ink);
    if (s.entry < 0) {
      edge(s.devices.back(), s.devices.front(), ink);
      return;
    }
    port(s.entry, s.devices.front(), -0.16, ink, true);
    port(s.exit, s.devices.back(), 0.16, ink, false);
  }

  void devices(bool named) {
    for (const auto& [device, angle] : angle_) {
      const Point at = place(angle, outer_);
      canvas_.circle(at.x, at.y, deviceRadius_, kWheelInk, describe(graph_, device));
      canvas_.text(at.x, at.y + deviceRadius_ * 0.4, numberOf(graph_, device),
                   {std::min(11.0, deviceRadius_ * 1.15), kDark, named, "middle"});
    }
  }

 private:
  static double angleOf(size_t i, size_t n) {
    return (static_cast<double>(i) / static_cast<double>(n) - 0.25 + 0.5 / static_cast<double>(n)) * 2 *
           std::numbers::pi;
  }
  Point place(double angle, double radius) const {
    return {middle_.x + radius * std::cos(angle), middle_.y + radius * std::sin(angle)};
  }
  static std::pair<int, int> pairOf(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

  void edge(int from, int to, const Ink& ink) {
    Lanes& lanes = lanes_[pairOf(from, to)];
    const double step = std::min(2.0, 1.6 * deviceRadius_ / std::max(1, lanes.all));
    const double aside = (lanes.drawn++ - (lanes.all - 1) / 2.0) * step * (from < to ? 1 : -1);
    const Point a = place(angle_.at(from), outer_), b = place(angle_.at(to), outer_);
    const double length = std::max(1.0, std::sqrt((b.x - a.x) * (b.x - a.x) + (b.y - a.y) * (b.y - a.y)));
    const double x = -(b.y - a.y) / length * aside, y = (b.x - a.x) / length * aside;
    canvas_.arrow(a.x + x, a.y + y, b.x + x, b.y + y, ink);
  }

  void port(int node, int device, double turn, const Ink& ink, bool in) {
    const double angle = angle_.at(device), far = outer_ + 2.2 * deviceRadius_ + 2;
    const Point at = place(angle + turn, far), rim = place(angle, outer_);
    in ? canvas_.arrow(at.x, at.y, rim.x, rim.y, ink) : canvas_.arrow(rim.x, rim.y, at.x, at.y, ink);
    const double half = deviceRadius_ * 0.62;
    canvas_.rect({at.x - half, at.y - half, 2 * half, 2 * half}, kPortInk, 2, describe(graph_, node));
    canvas_.text(at.x, at.y + half * 0.55, numberOf(graph_, node), {std::min(8.0, half * 1.5), kDark, false, "middle"});
  }

  Canvas& canvas_;
  const Graph& graph_;
  Point middle_;
  double deviceRadius_ = 0, outer_ = 0;
  std::map<int, double> angle_;
  struct Lanes {
    int all = 0, drawn = 0;
  };
  std::map<std::pair<int, int>, Lanes> lanes_;
};

Ink inkOf(size_t group, double width) { return {"none", kColors[group % std::size(kColors)], width, 1, false}; }

std::string captionOf(const Group& group) {
  const std::vector<size_t>& c = group.channels;
  const bool run = c.back() - c.front() + 1 == c.size();
  if (c.size() == 1) return cat("channel ", c.front());
  return run ? cat("channels ", c.front(), " to ", c.back()) : cat(c.size(), " channels, first ", c.front());
}

std::string totalText(const ChannelSet& set) {
  const size_t n = set.channels.size(), hosts = set.channels.front().stretches.size();
  return cat(n, n == 1 ? " ring x " : " rings x ", formatGBps(set.gbps), " GB/s = ", formatGBps(set.totalGBps()),
             " GB/s", hosts > 1 ? cat(" through ", hosts, " hosts, the first of them shown") : "");
}

std::string limitsText(const Graph& graph, const ChannelSet& set) {
  std::string text;
  for (const Limit& l : set.limits) {
    text += cat(text.empty() ? "full: " : ", ", l.count, " x ", kindName(graph.links[static_cast<size_t>(l.link)].kind),
                " ", formatGBps(l.gbps), " GB/s");
  }
  if (set.boundGBps > 0) {
    const double share = 100 * set.totalGBps() / set.boundGBps;
    text += cat(text.empty() ? "" : "; ", std::lround(share), "% of what the links can carry");
  }
  return text;
}

}  // namespace

double drawRings(Canvas& canvas, const Graph& graph, const ChannelPlan& plan, const Box& area) {
  const ChannelSet& set = plan.rings;
  const std::vector<Group> groups = groupsOf(set);
  canvas.text(area.x, area.y + 16, totalText(set), {15, kDark, true, "start"});
  canvas.text(area.x, area.y + 34, limitsText(graph, set), {11, kQuiet, false, "start"});
  const double top = area.y + kSetHead;
  const double more = std::min(8.0, std::max(0.0, static_cast<double>(groups.front().stretch->devices.size()) - 8));
  const double largeWheel = 250 + 12 * more, smallWheel = 150 + 10 * more;
  const auto panel = [&](const Box& box, const std::string& caption, const std::string& color) {
    canvas.rect(box, kPanelInk, 6);
    canvas.text(box.middle(), box.bottom() - 10, caption, {10.5, color.c_str(), true, "middle"});
    return Box{box.x + 6, box.y + 6, box.width - 12, box.height - kCaption};
  };
  const bool several = groups.size() > 1;
  const Box large{area.x, top, largeWheel, largeWheel + kCaption - 10};
  Wheel all(canvas, graph, *groups.front().stretch,
            panel(large, several ? "all rings" : captionOf(groups.front()), kDark));
  for (const Group& group : groups) all.announce(*group.stretch);
  for (size_t g = 0; g < groups.size(); ++g) all.ring(*groups[g].stretch, inkOf(g, several ? 1.4 : 2.4));
  all.devices(true);
  if (!several) return large.bottom();
  double x = large.right() + kWheelGap, y = top;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (x + smallWheel > area.right()) {
      y += smallWheel + kCaption - 10 + kWheelGap;
      x = y + 1 < large.bottom() ? large.right() + kWheelGap : area.x;
      y = x > area.x ? y : std::max(y, large.bottom() + kWheelGap);
    }
    if (g == kMostWheels) {
      canvas.text(x, y + 20, cat("and ", groups.size() - g, " more"), {12, kQuiet, true, "start"});
      break;
    }
    const Box box{x, y, smallWheel, smallWheel + kCaption - 10};
    Wheel wheel(canvas, graph, *groups[g].stretch, panel(box, captionOf(groups[g]), inkOf(g, 1).stroke));
    wheel.announce(*groups[g].stretch);
    wheel.ring(*groups[g].stretch, inkOf(g, 2));
    wheel.devices(false);
    x += smallWheel + kWheelGap;
  }
  return std::max(large.bottom(), y + smallWheel + kCaption - 10) + 4;
}

}  // namespace tutti::topology
