#include "tests/support/sim/world.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/split_mix.hpp"

namespace tutti {

namespace {

constexpr std::string_view kPrefix = "sim:";

/// Which node a control address means; -1 for none.
int nodeOf(const ControlAddress& controlAddress) {
  int node = -1;
  if (!controlAddress.starts_with(kPrefix)) return -1;
  const char* end = controlAddress.data() + controlAddress.size();
  const auto parsed = std::from_chars(controlAddress.data() + kPrefix.size(), end, node);
  return parsed.ec == std::errc() && parsed.ptr == end ? node : -1;
}

uint64_t rotateLeft(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

}  // namespace

/// A link: two ends, side 0 the dialer's, side 1 the acceptor's.
struct SimWorld::Pipe {
  int node[2];
  bool open[2] = {true, false};  // whether the end's machine still gets events
  bool handedOver[2] = {false, false};
  bool silent = false;
  bool reset = false;          // messages that are under way do not arrive
  int64_t lastNs[2] = {0, 0};  // when the newest event on its way to this end arrives
};

class SimWorld::Node : public Network {
 public:
  Node(SimWorld& world, int index) : world_(world), index_(index) {}

  int64_t nowNs() override {
    world_.asked_.push_back(index_);
    return world_.nowNs_;
  }
  void randomBytes(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(world_.random() >> 56);
  }
  LinkId dial(const ControlAddress& to) override { return world_.dial(index_, to); }
  void send(LinkId link, std::string_view message) override { world_.sendMessage(index_, link, message); }
  void close(LinkId link) override { world_.closeLink(index_, link); }
  bool silent(LinkId link) override { return world_.pipeOf(link).silent; }
  void handOver(LinkId link, const std::string& streamKey, const DirectionKeys&) override {
    Pipe& pipe = world_.pipeOf(link);
    pipe.handedOver[link & 1] = true;
    streams[streamKey] = link;
  }

  Machine* machine = nullptr;
  bool dead = false;
  bool frozen = false;
  int64_t timerNs = kNoTimer;  // what the queue holds for this node
  std::vector<Event> held;     // arrived while frozen
  std::map<std::string, LinkId> streams;

 private:
  SimWorld& world_;
  int index_;
};

SimWorld::SimWorld(uint64_t seed) {
  for (uint64_t& word : random_) word = nextSplitMix(&seed);
}

SimWorld::~SimWorld() = default;

uint64_t SimWorld::random() {  // xoshiro256**, Blackman & Vigna
  const uint64_t result = rotateLeft(random_[1] * 5, 7) * 9;
  const uint64_t t = random_[1] << 17;
  random_[2] ^= random_[0];
  random_[3] ^= random_[1];
  random_[1] ^= random_[2];
  random_[0] ^= random_[3];
  random_[2] ^= t;
  random_[3] = rotateLeft(random_[3], 45);
  return result;
}

int64_t SimWorld::randomBetween(int64_t low, int64_t high) {
  TUTTI_ASSERT_CMP(low, <=, high);
  return low + static_cast<int64_t>(random() % (static_cast<uint64_t>(high - low) + 1));
}

void SimWorld::setDelay(int64_t minNs, int64_t maxNs) {
  TUTTI_ASSERT_CMP(minNs, <=, maxNs);
  minDelayNs_ = minNs;
  maxDelayNs_ = maxNs;
}

int SimWorld::addNode() {
  nodes_.push_back(std::make_unique<Node>(*this, nNodes()));
  return nNodes() - 1;
}

int SimWorld::nNodes() const { return static_cast<int>(nodes_.size()); }
Network& SimWorld::network(int node) { return *nodes_.at(static_cast<size_t>(node)); }
ControlAddress SimWorld::controlAddress(int node) { return cat(kPrefix, node); }
bool SimWorld::alive(int node) const { return !nodes_.at(static_cast<size_t>(node))->dead; }
bool SimWorld::frozen(int node) const { return alive(node) && nodes_.at(static_cast<size_t>(node))->frozen; }

void SimWorld::attach(int node, Machine* machine) { nodes_.at(static_cast<size_t>(node))->machine = machine; }

const std::map<std::string, LinkId>& SimWorld::streams(int node) const {
  return nodes_.at(static_cast<size_t>(node))->streams;
}

// ---- Links.  LinkId = 2 * (index of the pipe + 1) + side.

SimWorld::Pipe& SimWorld::pipeOf(LinkId link) const { return *pipes_.at(static_cast<size_t>(link / 2 - 1)); }
int SimWorld::peerOf(LinkId link) const { return pipeOf(link).node[(link & 1) ^ 1]; }

LinkId SimWorld::dial(int from, const ControlAddress& to) {
  ++nDials_;
  auto pipe = std::make_unique<Pipe>();
  pipe->node[0] = from;
  pipe->node[1] = nodeOf(to);
  pipes_.push_back(std::move(pipe));
  const LinkId link = 2 * pipes_.size();
  const int node = nodeOf(to);
  if (!cut_.contains({std::min(from, node), std::max(from, node)})) scheduleOnLink(link | 1, Kind::Arrive, {});
  return link;
}

void SimWorld::sendMessage(int from, LinkId link, std::string_view message) {
  Pipe& pipe = pipeOf(link);
  TUTTI_ASSERT_CMP(pipe.node[link & 1], ==, from);
  TUTTI_ASSERT_CMP(message.size(), <=, kMaxMessageBytes);
  if (!pipe.open[link & 1] || pipe.handedOver[link & 1]) return;
  largestMessageBytes_ = std::max(largestMessageBytes_, message.size());
  std::string travels(message);
  if (nMessages_++ == damaged_ && !travels.empty())
    travels[random() % travels.size()] ^= static_cast<char>(1 << random() % 8);
  scheduleOnLink(link ^ 1, Kind::Message, std::move(travels));
  if (resetsNow()) dropLink(link, Loss::Reset);
}

bool SimWorld::resetsNow() {
  if (nMessages_ == resetAt_ + 1) return true;
  return resetsPerMillion_ > 0 && nowNs_ < resetsUntilNs_ && randomBetween(0, 999'999) < resetsPerMillion_;
}

void SimWorld::closeLink(int from, LinkId link) {
  Pipe& pipe = pipeOf(link);
  TUTTI_ASSERT_CMP(pipe.node[link & 1], ==, from);
  if (!pipe.open[link & 1]) return;
  pipe.open[link & 1] = false;
  scheduleOnLink(link ^ 1, Kind::Closed, std::string(kClosedByPeer));
}

std::vector<LinkId> SimWorld::links(int node) const {
  std::vector<LinkId> result;
  for (size_t i = 0; i < pipes_.size(); ++i)
    for (unsigned side = 0; side < 2; ++side)
      if (pipes_[i]->node[side] == node && pipes_[i]->open[side] && !pipes_[i]->handedOver[side])
        result.push_back(2 * (i + 1) + side);
  return result;
}

void SimWorld::dropLink(LinkId link, Loss loss) {
  Pipe& pipe = pipeOf(link);
  if (loss == Loss::Silent) {
    pipe.silent = true;
    return;
  }
  if (loss == Loss::Reset) {
    pipe.reset = true;
    ++nResets_;
  }
  for (LinkId end : {link, link ^ 1}) scheduleOnLink(end, Kind::Closed, "connection reset");
}

// ---- Faults of nodes.

void SimWorld::kill(int index) {
  Node& node = *nodes_.at(static_cast<size_t>(index));
  if (node.dead) return;
  for (LinkId link : links(index)) {
    pipeOf(link).open[link & 1] = false;
    scheduleOnLink(link ^ 1, Kind::Closed, "connection reset");
  }
  // The system had accepted for it, who was frozen.
  for (const Event& event : node.held) {
    if (event.kind == Kind::Arrive) scheduleOnLink(event.link ^ 1, Kind::Closed, "connection reset");
  }
  node.dead = true;
  node.held.clear();
}

void SimWorld::freeze(int node) { nodes_.at(static_cast<size_t>(node))->frozen = true; }

void SimWorld::thaw(int index) {
  Node& node = *nodes_.at(static_cast<size_t>(index));
  node.frozen = false;
  for (Event& event : std::exchange(node.held, {})) {
    event.ns = nowNs_;
    schedule(std::move(event));
  }
  node.timerNs = kNoTimer;
  touch(index);
}

// ---- Events.

void SimWorld::schedule(Event event) {
  event.order = nextOrder_++;
  heap_.push_back(std::move(event));
  std::push_heap(heap_.begin(), heap_.end(),
                 [](const Event& a, const Event& b) { return a.ns != b.ns ? a.ns > b.ns : a.order > b.order; });
}

int64_t SimWorld::orderedArrivalNs(int64_t* lastNs) {
  *lastNs = std::max(*lastNs, nowNs_ + someDelayNs());
  return *lastNs;
}

void SimWorld::scheduleOnLink(LinkId end, Kind kind, std::string text) {
  Pipe& pipe = pipeOf(end);
  Event event;
  event.ns = orderedArrivalNs(&pipe.lastNs[end & 1]);
  event.kind = kind;
  event.node = pipe.node[end & 1];
  event.link = end;
  event.text = std::move(text);
  schedule(std::move(event));
}

void SimWorld::at(int64_t ns, std::function<void()> fn) {
  Event event;
  event.ns = std::max(ns, nowNs_);
  event.fn = std::move(fn);
  schedule(std::move(event));
}

void SimWorld::post(int from, int to, int64_t ns, std::function<void()> fn) {
  if (!alive(from) || cut_.contains({std::min(from, to), std::max(from, to)})) return;
  Event event;
  event.ns = std::max(ns, nowNs_);
  event.kind = Kind::Post;
  event.node = to;
  event.link = static_cast<LinkId>(from);
  event.fn = std::move(fn);
  schedule(std::move(event));
}

void SimWorld::cut(int nodeA, int nodeB) { cut_[{std::min(nodeA, nodeB), std::max(nodeA, nodeB)}] = true; }

bool SimWorld::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(),
                [](const Event& a, const Event& b) { return a.ns != b.ns ? a.ns > b.ns : a.order > b.order; });
  Event event = std::move(heap_.back());
  heap_.pop_back();
  nowNs_ = std::max(nowNs_, event.ns);
  dispatch(event);
  return true;
}

bool SimWorld::runUntil(const std::function<bool()>& done, int64_t limitNs) {
  touchAsked();
  while (!done()) {
    touchAsked();
    if (heap_.empty() || heap_.front().ns > limitNs) {
      nowNs_ = std::max(nowNs_, limitNs);
      return false;
    }
    step();
  }
  return true;
}

void SimWorld::dispatch(Event& event) {
  if (event.kind == Kind::Callback) {
    mix(static_cast<uint64_t>(event.ns));
    event.fn();
    return touchAsked();
  }
  if (event.node < 0 || event.node >= nNodes()) {  // a dial to nowhere
    scheduleOnLink(event.link ^ 1, Kind::Closed, "no such host");
    return;
  }
  Node& node = *nodes_[static_cast<size_t>(event.node)];
  if (event.kind == Kind::Timer) {
    if (node.dead || node.frozen || event.ns != node.timerNs) return;  // not wanted any more
    node.timerNs = kNoTimer;
  }
  if (event.kind == Kind::Arrive) {
    if (node.dead || node.machine == nullptr)
      return scheduleOnLink(event.link ^ 1, Kind::Closed, cat(kNobodyListens, "that node"));
    // The system accepts on behalf of a frozen process, so the dialer is told first.
    if (event.text.empty()) scheduleOnLink(event.link ^ 1, Kind::Connected, {});
    event.text = "accepted";
  }
  if (node.dead) return;
  if (node.frozen) return node.held.push_back(std::move(event));
  mix(static_cast<uint64_t>(nowNs_));
  mix((static_cast<uint64_t>(event.kind) << 56) ^ static_cast<uint64_t>(event.node));
  if (event.kind == Kind::Timer) {
    node.machine->onTimer();
  } else if (event.kind == Kind::Post) {
    mix(event.link);
    event.fn();
  } else {
    dispatchLink(event, node);
  }
  asked_.push_back(event.node);
  touchAsked();
}

void SimWorld::dispatchLink(Event& event, Node& node) {
  Pipe& pipe = pipeOf(event.link);
  bool& open = pipe.open[event.link & 1];
  if (event.kind == Kind::Arrive) open = true;
  if (event.kind == Kind::Message && pipe.reset) return;
  if (!open || pipe.handedOver[event.link & 1] || pipe.silent || node.machine == nullptr) return;
  mix(event.link);
  mix(std::hash<std::string>()(event.text));
  switch (event.kind) {
    case Kind::Arrive: return node.machine->onAccepted(event.link);
    case Kind::Connected: return node.machine->onConnected(event.link);
    case Kind::Message:
      if (event.text.size() > node.machine->messageLimit(event.link)) {  // as a real driver does
        closeLink(event.node, event.link);
        return node.machine->onClosed(event.link,
                                      remoteError("a message of ", event.text.size(), " bytes is too long"));
      }
      return node.machine->onMessage(event.link, event.text);
    case Kind::Closed: open = false; return node.machine->onClosed(event.link, remoteError(event.text));
    default: return;
  }
}

void SimWorld::mix(uint64_t value) {
  hash_ = (hash_ ^ value) * 0x100000001b3u;
  hash_ ^= hash_ >> 29;
}

void SimWorld::touch(int index) {
  Node& node = *nodes_[static_cast<size_t>(index)];
  if (node.dead || node.frozen || node.machine == nullptr) return;
  const int64_t wanted = node.machine->nextTimerNs();
  if (wanted == node.timerNs) return;
  node.timerNs = kNoTimer;
  if (wanted == kNoTimer) return;
  Event event;
  event.ns = std::max(wanted, nowNs_);
  event.kind = Kind::Timer;
  event.node = index;
  node.timerNs = event.ns;
  schedule(std::move(event));
}

/// The nodes whose machine may want another timer.  Whoever sets one has asked for the time.
void SimWorld::touchAsked() {
  const size_t n = asked_.size();  // touch() may add to it
  for (size_t i = 0; i < n; ++i)
    if (i == 0 || asked_[i] != asked_[i - 1]) touch(asked_[i]);
  asked_.clear();
}

}  // namespace tutti
