// A world of virtual nodes for tests: one clock, one seed, links with delays, losses and deaths.
//
// Everything that happens is an event in one queue, ordered by virtual time; one seed gives one history, and
// traceHash() is equal for equal histories.  One thread.  Nodes are numbered from 0.
//
//   SimWorld world(seed);
//   const int node = world.addNode();
//   BootstrapNode bootstrap(world.network(node), [] {});
//   world.attach(node, &bootstrap);
//   world.at(0, [&] { bootstrap.join(...); });
//   world.at(5'000'000, [&] { world.kill(other); });
//   world.runUntil([&] { return bootstrap.up(member); }, 10'000'000'000);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "src/control/network.hpp"

namespace tutti {

class SimWorld {
 public:
  explicit SimWorld(uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // ---- Nodes.
  int addNode();
  int nNodes() const;
  /// The node's way to the world; lives as long as the world.  A machine that sets a timer must have asked it for the
  /// time in the same call (from outside of the events, that is how the world learns of the timer).
  Network& network(int node);
  /// Who gets the node's events (borrowed); nullptr: nobody, dials are refused.
  void attach(int node, Machine* machine);
  /// "sim:7", what others dial.
  static ControlAddress controlAddress(int node);

  // ---- Time and chance.
  int64_t nowNs() const { return nowNs_; }
  /// The world's generator: 64 random bits, and a number in [low, high].
  uint64_t random();
  int64_t randomBetween(int64_t low, int64_t high);
  /// Every message takes this long (at random in between), but never overtakes one before it on its link.
  void setDelay(int64_t minNs, int64_t maxNs);
  /// What chance gives one message.
  int64_t someDelayNs() { return randomBetween(minDelayNs_, maxDelayNs_); }
  /// Call fn at a virtual time (now, if that has passed).  fn may call into machines, kill nodes and so on.
  void at(int64_t ns, std::function<void()> fn);

  // ---- Messages outside of links (for endpoints): fn runs at node `to` at a time that the caller has chosen (calls
  // for the same time in the order of their posting).  Lost if `from` is dead now, `to` is dead then, or the pair is
  // cut; held back while `to` is frozen.
  void post(int from, int to, int64_t ns, std::function<void()> fn);
  /// post() between the two nodes loses everything from now on, and dials are not answered, without a word.  Links
  /// that stand go on.
  void cut(int nodeA, int nodeB);

  // ---- Running.
  /// The next event; false if there is none.
  bool step();
  /// Until done() holds (looked at after every event); false if it does not until limitNs, which is the time then.
  bool runUntil(const std::function<bool()>& done, int64_t limitNs);

  // ---- Faults.
  /// The node stops at once; the peers of its links get onClosed after a delay.
  void kill(int node);
  /// The node stops, but its links stay open, as with SIGSTOP; what is sent to it waits for thaw().
  void freeze(int node);
  void thaw(int node);
  bool alive(int node) const;   // not killed
  bool frozen(int node) const;  // frozen and alive
  enum class Loss {
    Closed,  // both ends get onClosed after a delay, behind what is under way
    Reset,   // the same, and what is under way is lost
    Silent   // nothing arrives any more, and nobody is told
  };
  void dropLink(LinkId link, Loss loss);
  /// The link on which the message with this number is sent, of all from 0, is reset then.
  void resetAtMessage(uint64_t message) { resetAt_ = message; }
  /// Every message does that by this chance, in a million, until the virtual time.
  void resetByChance(int64_t perMillion, int64_t untilNs) { resetsPerMillion_ = perMillion, resetsUntilNs_ = untilNs; }
  uint64_t nResets() const { return nResets_; }
  /// One bit, which chance picks, of the message that is sent as number `message` of all (from 0) is flipped.
  void damageMessage(uint64_t message) { damaged_ = message; }
  /// The node's ends of links that are open and not handed over.
  std::vector<LinkId> links(int node) const;
  int peerOf(LinkId link) const;

  // ---- Looking.
  /// Links the node has given up by handOver, by stream key; a later one under the same key replaces the former.
  const std::map<std::string, LinkId>& streams(int node) const;
  uint64_t traceHash() const { return hash_; }
  uint64_t nMessages() const { return nMessages_; }
  uint64_t nDials() const { return nDials_; }
  size_t largestMessageBytes() const { return largestMessageBytes_; }

 private:
  class Node;
  struct Pipe;
  enum class Kind : uint8_t { Callback, Post, Timer, Arrive, Connected, Message, Closed };
  struct Event {
    int64_t ns = 0;
    uint64_t order = 0;  // of scheduling: breaks ties
    Kind kind = Kind::Callback;
    int node = -1;
    LinkId link = 0;
    std::string text;
    std::function<void()> fn;
  };

  Pipe& pipeOf(LinkId link) const;
  LinkId dial(int from, const ControlAddress& to);
  void sendMessage(int from, LinkId link, std::string_view message);
  void closeLink(int from, LinkId link);
  bool resetsNow();
  void schedule(Event event);
  void scheduleOnLink(LinkId end, Kind kind, std::string text);
  int64_t orderedArrivalNs(int64_t* lastNs);
  void dispatch(Event& event);
  void dispatchLink(Event& event, Node& node);
  void mix(uint64_t value);
  void touch(int node);
  void touchAsked();

  int64_t nowNs_ = 0;
  int64_t minDelayNs_ = 10'000;
  int64_t maxDelayNs_ = 1'000'000;
  uint64_t random_[4];
  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t nextOrder_ = 0;
  uint64_t nMessages_ = 0;
  uint64_t damaged_ = UINT64_MAX;
  uint64_t resetAt_ = UINT64_MAX, nResets_ = 0;
  int64_t resetsPerMillion_ = 0, resetsUntilNs_ = 0;
  uint64_t nDials_ = 0;
  size_t largestMessageBytes_ = 0;
  std::vector<int> asked_;   // nodes that have asked for the time since the last touchAsked()
  std::vector<Event> heap_;  // earliest event on top
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::map<std::pair<int, int>, bool> cut_;
};

}  // namespace tutti
