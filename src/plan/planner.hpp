// The planner: which algorithm, protocol and number of channels a call gets.
//
// It compares every algorithm of the collective with every protocol that the links have, and takes the cheapest; ties
// go to the order of the registry, then of the protocols.  Those whose work alone costs more than the best are not
// estimated.  What was measured to be fastest (Tuning) is taken instead, where there is such a figure.  A choice
// depends only on what all ranks share: the Shape without its rank, the Calibration and Tuning that one rank handed to
// all, and the overrides.  So all ranks choose the same without talking to each other.  Pure functions; any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "src/base/status.hpp"
#include "src/base/wire_format.hpp"
#include "src/cost/calibration.hpp"
#include "src/cost/device_costs.hpp"
#include "src/plan/overrides.hpp"
#include "src/plan/tuning.hpp"

namespace tutti {

/// Which links a communicator has.  The same on every rank.
struct LinkUse {
  std::optional<LinkProfile>
      intra;  // the slowest kind that joins ranks of one node; none: every rank is alone on its node
  std::optional<LinkProfile> inter;    // the slowest kind between nodes; none: one node
  double ranksPerCore = 1;             // on the most loaded machine; >= 1
  bool nodesShareCores = false;        // all nodes are parts of one machine (containers), and any core may be anyone's
  std::optional<LinkProfile> process;  // the slowest kind that joins ranks of one process; none: as intra
};

/// The ways between ranks that are in one group of this level and in none of the levels before.
struct MachineLevel {
  std::string name;                 // "process", "L3", "host", for tables
  std::vector<int> groupOf;         // [rank]
  std::optional<LinkProfile> link;  // none: there are none, or of devices, whose costs are elsewhere
  /// What passes between a group of the level before and all others, GB/s each way; 0: as much as there is.
  double portGBps = 0;
};

/// How near ranks are, from the smallest groups to all; each level divides the next.  The same on every rank.
using MachineLevels = std::vector<MachineLevel>;

/// Ranks and cores of a machine -> ranksPerCore.
double ranksPerCore(int ranks, int cores);

/// A plan that comes with all ranks' schedules, to be compared beside the algorithms.  Borrowed.
struct ReadyPlan {
  std::string_view name;   // in tables and for TUTTI_ALGO; ends with a zero byte
  std::string_view alias;  // also for TUTTI_ALGO
  std::string_view origin;
  /// One per rank, for calls out of place and in place, with the same messages; of logical ops.  inPlace: null: a call
  /// in place goes by outOfPlace, with a copy of its input.
  const std::vector<Schedule>* outOfPlace = nullptr;
  const std::vector<Schedule>* inPlace = nullptr;

  bool answersTo(std::string_view asked) const { return asked == name || asked == alias; }
};

struct PlanRequest {
  Shape shape;  // rank is ignored
  /// Of the call's type: chunks without an element cost nothing.  0: unknown; every chunk counts.
  size_t elementBytes = 0;
  LinkUse links;
  /// What carries messages between ranks on CUDA devices; borrowed.  Then links are those of their hosts, which have a
  /// part in it only where bytes pass through them, and levels are deviceLevels() where they do not.  None: ranks on
  /// the host.
  const DeviceCosts* device = nullptr;
  /// Borrowed; none: all ranks of a node are as near as links.intra, all nodes as links.inter.
  const MachineLevels* levels = nullptr;
  /// Every rank's buffers may be offered as they lie on every link inside a node (registered, mapped or CMA).
  bool directPossible = false;
  /// The largest message that a rank can send to all others at once; 0: none.
  size_t boardBytes = 0;
  /// The most bytes of a message of several chunks (Shape::messageBytes), at most shape.slotBytes; 0: there are none.
  size_t joinBytes = 0;
  int mostChannels = 1;  // as many as the communicator can open
  int mostLanes = 63;
  /// Those that may serve the call, and, where TUTTI_ALGO names a plan and none of those is of that name, why.
  std::vector<ReadyPlan> ready;
  std::string whyNoneReady;
  /// Candidates that may cost up to so many times what the cheapest does are estimated, too.
  double within = 1;
  /// The table says what every candidate costs; else of some only that they are dearer than the best.  The choice is
  /// the same.
  bool wholeTable = false;
  /// What was measured; borrowed.  None: choices go by costs.
  const Tuning* tuning = nullptr;
  /// What the numbers of the call's messages travel as between hosts, by algorithms that can have that; whose messages
  /// are then of one chunk.
  WireFormat wire = WireFormat::Full;
  /// Bytes there for each byte of the call; 1: Full.
  double wireShare = 1;
  Overrides overrides;
};

/// One row of what was compared.
struct Candidate {
  const Algorithm* algorithm = nullptr;  // or
  std::optional<ReadyPlan> ready = {};
  Protocol protocol = Protocol::Slots;  // on the links inside nodes; where there are none, between nodes
  int nChannels = 1;
  double costUs = 0;
  double workUs = 0;                  // of the busiest core or device, in that
  double wireUs = 0;                  // of the busiest wire
  bool estimated = false;             // else by the formula
  bool atLeast = false;               // costs that or more, and is not the cheapest
  bool tuned = false;                 // measured to be the fastest of all
  bool joined = false;                // chunks of a step share messages
  bool waits = false;                 // senders wait for receivers that the network holds up
  int estimatedRanks = 0;             // the first of all, where only they were estimated, and the formula did the rest
  std::vector<LevelPart> parts = {};  // of a hierarchical algorithm
  std::string excluded = {};          // why it was not compared; empty: it was

  std::string_view name() const { return ready ? ready->name : algorithm->name; }
  std::string_view origin() const { return ready ? ready->origin : ""; }
  /// What it is compared by: one that is known from some of the ranks has to be better by more than that can be wrong,
  /// and so has one whose ranks wait for each other where the wire is as busy either way.
  double comparedUs() const {
    if (tuned) return 0;
    return costUs * (estimatedRanks > 0 ? 1.1 : 1) * (waits ? 1.02 : 1);
  }
};

/// An override that the call could not have.
struct Unmet {
  std::string asked;          // "TUTTI_ALGO=torus3d"
  std::string reason;         // "it needs ..."
  bool ofCollective = false;  // asked of the call's collective alone
  bool operator==(const Unmet&) const = default;
};

struct Choice {
  const Algorithm* algorithm = nullptr;  // or
  std::optional<ReadyPlan> ready;
  std::string_view name() const { return ready ? ready->name : algorithm->name; }
  std::string_view origin() const { return ready ? ready->origin : ""; }
  /// Inside nodes.  Between nodes `interProtocol`; on one node they are the same.
  Protocol protocol = Protocol::Slots;
  Protocol interProtocol = Protocol::Slots;
  int nChannels = 1;
  /// Shape::messageBytes is to be the request's joinBytes; else 0.
  bool joined = false;
  /// Memory that peers map is sent like other memory, and not read where it lies; only for who tries ways.
  bool copied = false;
  /// What messages between hosts travel as: the request's, or Full.
  WireFormat wire = WireFormat::Full;
  double costUs = 0;
  /// For Shape::parts.
  std::vector<LevelPart> parts;
  /// Usable protocols with every algorithm, in the order of comparison; an algorithm that is out has one row.
  std::vector<Candidate> table;
  /// Why a protocol was not compared with any algorithm; empty: it was.
  std::array<std::string, kNumProtocols> protocolExcluded;
  /// By which it was made: those of the request but for the unmet ones.
  Overrides overrides;
  std::vector<Unmet> unmet;
};

class Estimates;

/// estimates: of the ranks and the machine of this request; none: nothing is kept for the next call.
/// Errors: as honour() of fit.hpp; InvalidUsage when no algorithm of the collective supports the shape.
Result<Choice> plan(const PlanRequest& request, const Calibration& calibration, Estimates* estimates = nullptr);

/// PlanRequest::joinBytes for such links: a slot between hosts.  Inside one host less: what messages cost there is soon
/// less than what is lost when chunks are gathered, and are no longer combined while the next is on its way
/// (tcp loopback, 4 and 8 ranks: 1.2 to 3 times as fast at messages of up to 4 KiB, 0.9 to 2 at 32 KiB, 0.6 to 1 at
/// 128).  Streams have chunks gathered by copies that take less than a message's operations: a slot.
size_t mostJoinedBytes(const LinkUse& links, size_t slotBytes, const DeviceCosts* device = nullptr);

/// Has the messages of a call on numbers of this type travel in the format, where they take fewer bytes so.
void narrow(PlanRequest* request, WireFormat format, tuttiDataType_t dtype);

/// Whether the algorithm's messages may be rounded: of an AllReduce, all ranks must still end with the same bits.
bool mayNarrow(const Algorithm& algorithm);

/// Whether messages of several chunks are possible for this algorithm and size: it has steps with several, and two fit.
bool joins(const PlanRequest& request, const Algorithm& algorithm);

/// Whether a plan by this algorithm sends to all at once.  With two ranks that is what an endpoint does.
bool publishes(const PlanRequest& request, const Algorithm& algorithm);

/// A message that no algorithm plans (send, receive): the cheapest protocol for it, and its cost.
struct MessageCost {
  Protocol protocol = Protocol::Slots;
  double costUs = 0;
};
MessageCost messageCost(const LinkProfile& link, size_t bytes, bool directPossible, const Calibration& calibration);

/// The costs that algorithms are asked with, for one protocol inside nodes.  Also for tools and perf programs.
CostModel costModel(const PlanRequest& request, const Calibration& calibration, Protocol protocol);

/// "ring, slots, 1 channel"
std::string describe(const Choice& choice);

/// The table as text, one line per candidate, the cheapest first and the excluded ones last, for TUTTI_EXPLAIN and
/// tutti-info.  Ends with a newline.
std::string explain(const PlanRequest& request, const Choice& choice);

}  // namespace tutti
