#include "src/plan/fit.hpp"

#include <algorithm>

#include "src/plan/request_parts.hpp"

namespace tutti {
namespace {

int channelsAsked(const PlanRequest& r) { return std::max(1, r.overrides.nChannels); }

int lanesOf(const ReadyPlan& ready) { return static_cast<int>(ready.outOfPlace->front().lanes.size()); }

/// lanes: of one channel.
std::string tooManyLanes(const PlanRequest& r, int lanes) {
  const int all = lanes * channelsAsked(r);
  return all <= r.mostLanes ? "" : cat("it needs ", all, " lanes, and there are ", r.mostLanes);
}

std::string theseWould(const std::vector<std::string_view>& names) {
  std::string out;
  for (const std::string_view name : names) out += cat(out.empty() ? "these would: " : ", ", name);
  return out;
}

}  // namespace

std::string misfit(const PlanRequest& r, const Algorithm& a) {
  if (const char* missing = a.missing(r.shape)) return cat("it needs ", missing);
  return tooManyLanes(r, a.lanes);
}

std::string misfit(const PlanRequest& r, const ReadyPlan& ready) { return tooManyLanes(r, lanesOf(ready)); }

std::string misfit(const PlanRequest& r, const Calibration& c, Protocol protocol) {
  const std::string_view link = mainLink(r, c);
  return whyNot(r, c.at(link, protocol), link, protocol, r.links.intra.has_value());
}

std::string describe(const Shape& s) {
  return cat(collectiveKey(s.collective), s.uneven ? "v" : cat(" of ", s.bytes, s.bytes == 1 ? " byte" : " bytes"),
             " on ", s.nRanks, s.nRanks == 1 ? " rank" : " ranks", s.inPlace ? ", in place" : "",
             s.commutative ? "" : ", operands in rank order");
}

std::string sentence(const Unmet& unmet, const Shape& s) {
  return cat(unmet.asked, " does not serve ", describe(s), ": ", unmet.reason);
}

namespace {

/// Sets aside what does not fit, one kind of override after the other.
class Honouring {
 public:
  Honouring(const PlanRequest& r, const Calibration& c) : r_(r), c_(c), left_(r) {}

  Result<Honoured> result() {
    algorithm();
    ready();
    protocol();
    channels();
    if (unmet_.empty() || !r_.overrides.strict) return Honoured{left_.overrides, std::move(unmet_)};
    return invalidUsage(ErrorCode::AlgorithmDoesNotFit, refusal_,
                        ". Without TUTTI_ALGO_STRICT=1 the planner would choose by itself");
  }

 private:
  /// instead: for a refusal, what else could be asked for.
  void setAside(const std::string& asked, const std::string& reason, std::string (Honouring::*instead)() const) {
    unmet_.push_back({asked, reason, instead == &Honouring::names});
    if (!r_.overrides.strict) return;
    const std::string would = instead == nullptr ? "" : (this->*instead)();
    refusal_ += cat(refusal_.empty() ? "" : "; ", sentence(unmet_.back(), r_.shape), would.empty() ? "" : "; ", would);
  }

  /// The request with one channel.
  PlanRequest single() const {
    PlanRequest one = left_;
    one.overrides.nChannels = 0;
    return one;
  }

  void algorithm() {
    const Algorithm*& asked = left_.overrides.algorithm[static_cast<size_t>(r_.shape.collective)];
    if (asked == nullptr) return;
    const std::string why = misfit(single(), *asked);
    if (why.empty()) {
      lanes_ = asked->lanes;
      return;
    }
    const std::string wish = cat("TUTTI_ALGO=", asked->name);
    asked = nullptr;
    setAside(wish, why, &Honouring::names);
  }

  void ready() {
    std::string& asked = left_.overrides.ready[static_cast<size_t>(r_.shape.collective)];
    if (asked.empty()) return;
    std::string why;
    int fewest = 0;  // lanes
    const PlanRequest one = single();
    for (const ReadyPlan& plan : r_.ready) {
      if (!plan.answersTo(asked)) continue;
      const std::string wide = misfit(one, plan);
      if (wide.empty()) fewest = fewest == 0 ? lanesOf(plan) : std::min(fewest, lanesOf(plan));
      why = wide;
    }
    if (fewest > 0) {
      lanes_ = fewest;
      return;
    }
    if (why.empty()) why = r_.whyNoneReady.empty() ? "no plan of the name serves such calls" : r_.whyNoneReady;
    const std::string wish = cat("TUTTI_ALGO=", asked);
    asked.clear();
    setAside(wish, why, &Honouring::names);
  }

  void protocol() {
    std::optional<Protocol>& asked = left_.overrides.protocol;
    // A program that moves its bytes directly still has barriers, and a rank alone sends nothing.
    const bool barrier = r_.shape.collective == Collective::Barrier && asked == Protocol::Direct;
    if (!asked || barrier) return;
    const std::string why = misfit(r_, c_, *asked);
    if (why.empty()) return;
    const std::string wish = cat("TUTTI_PROTO=", protocolName(*asked));
    asked.reset();
    if (r_.shape.nRanks > 1) setAside(wish, why, &Honouring::protocols);
  }

  /// What fits with one channel has to do with as many as there are lanes for: nearest to what was asked for.
  void channels() {
    int& asked = left_.overrides.nChannels;
    const int most = std::max(1, std::min(r_.mostChannels, r_.mostLanes / lanes_));
    if (asked <= most) return;
    const std::string wish = cat("TUTTI_NCHANNELS (or config.nChannels) = ", asked);
    asked = most;
    if (r_.overrides.nearestChannels) return;
    const std::string each = lanes_ > 1 ? cat(" with ", lanes_, " lanes each") : "";
    setAside(wish, cat("at most ", most, most == 1 ? " channel" : " channels", each, " can be had here"), nullptr);
  }

  /// For a refusal: algorithms and plans that this request would get if they were asked for.
  std::string names() const {
    std::vector<std::string_view> fit;
    const Collective collective = r_.shape.collective;
    for (const Algorithm* a : algorithms()) {
      if (a->collective == collective && misfit(left_, *a).empty()) fit.push_back(a->name);
    }
    for (const ReadyPlan& ready : r_.ready) {
      const std::string_view name = findAlgorithm(collective, ready.name) == nullptr ? ready.name : ready.alias;
      const bool reached = findAlgorithm(collective, name) == nullptr && std::ranges::find(fit, name) == fit.end();
      if (reached && misfit(left_, ready).empty()) fit.push_back(name);
    }
    return theseWould(fit);
  }

  std::string protocols() const {
    std::vector<std::string_view> fit;
    PlanRequest other = r_;
    for (const Protocol p : kAllProtocols) {
      other.overrides.protocol = p;
      if (misfit(other, c_, p).empty()) fit.emplace_back(protocolName(p));
    }
    return theseWould(fit);
  }

  const PlanRequest& r_;
  const Calibration& c_;
  PlanRequest left_;
  std::vector<Unmet> unmet_;
  std::string refusal_;
  int lanes_ = 1;  // of a channel of what TUTTI_ALGO asks for
};

/// Whether anything is asked for.
bool asksNothing(const PlanRequest& r) {
  const Overrides& o = r.overrides;
  return o.of(r.shape.collective) == nullptr && o.readyOf(r.shape.collective).empty() && !o.protocol &&
         o.nChannels == 0;
}

}  // namespace

Result<Honoured> honour(const PlanRequest& r, const Calibration& c) {
  if (asksNothing(r)) return Honoured{r.overrides, {}};
  return Honouring(r, c).result();
}

}  // namespace tutti
