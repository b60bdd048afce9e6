// Runs a job event by event.
//
// A lane executes its steps in order.  A step waits until its messages are there, combines, and hands what it sends to
// the wire, where a lane has inFlight messages at a time, one to a peer; the lane goes on meanwhile.  Messages between
// two ranks on one lane arrive in order.  Receivers always have room: what credits cost is in the protocols' figures.
#pragma once

#include <cstdint>
#include <queue>
#include <string>
#include <vector>

#include "src/cluster/job.hpp"
#include "src/sim/flows.hpp"

namespace tutti::sim {

/// What happened, for timelines and critical paths.
struct StepRecord {
  int32_t member, lane, step, loop;
  Picoseconds ready;  // its messages are there, and the lane is free
  Picoseconds end;    // the lane goes on
  int32_t message;    // that it waited for last; -1: it waited for none
  int32_t before;     // record of the lane's step before; -1: none
};
struct MessageRecord {
  int32_t step;          // record of the step that sent it
  int32_t member, edge;  // of the sender
  int32_t protocol;      // in Job::near or far
  int32_t behind;        // message that had to leave first, -1: none
  double bytes;          // payload
  Picoseconds ready, start, end, arrival;
};

struct Run {
  Picoseconds end = 0;            // of the last lane
  std::vector<Picoseconds> ends;  // [member]
  std::vector<double> linkBytes;  // [link] that passed, with what protocols add
  int64_t messages = 0;
  int64_t events = 0;
  std::vector<StepRecord> steps;  // if asked for
  std::vector<MessageRecord> sent;
};

/// One use.  One thread.
class Engine {
 public:
  explicit Engine(const Job& job);

  /// All lanes `loops` times, with messages of `loopBytes` bytes a chunk.
  /// Errors: InvalidArgument beyond kMostTime; InternalError with who waits for whom if programs come to a halt.
  Result<Run> run(int loops, double loopBytes, bool record);

 private:
  struct Message {
    Picoseconds ready = 0, arrival = 0;
    double wireBytes = 0, mostGBps = 0;
    Picoseconds latency = 0, receive = 0;
    double copyUs = 0;  // of the receiver, beside `receive`
    double gatherUsPerChunk = 0;
    int32_t lane = 0;  // sender's, in lanes_
    const Edge* edge = nullptr;
    int32_t messages = 0;
    int32_t next = -1;  // in its queue
    int32_t record = -1;
  };
  struct Queue {
    int32_t head = -1, tail = -1;
  };
  struct Fifo : Queue {
    int32_t messages = 0;  // that have arrived and not been taken
    bool busy = false;     // one is on the wire
  };
  struct Lane {
    int32_t member = 0, index = 0;
    size_t step = 0;
    int32_t loop = 0;
    bool called = false;  // this loop's call has begun
    Picoseconds clock = 0;
    int64_t waitsFor = -1;  // FIFO
    Queue unsent;
    int32_t onWire = 0;
    int32_t lastRecord = -1, lastSent = -1;
  };
  struct Event {
    Picoseconds at;
    int32_t id;        // message to start, or flow that ends
    uint32_t version;  // of the flow
    bool starts;
    bool operator>(const Event& o) const { return at > o.at; }
  };

  const JobLane& jobLane(const Lane& lane) const {
    return job_.lanes[static_cast<size_t>(lane.member)][static_cast<size_t>(lane.index)];
  }
  /// Of an edge of the member and one of its channel's lanes.
  Fifo& fifo(int32_t member, int32_t edge, int32_t lane) {
    return fifos_[fifoBase_[static_cast<size_t>(member)] + static_cast<size_t>(edge * lanesOfChannel_) +
                  static_cast<size_t>(lane % lanesOfChannel_)];
  }
  void push(Queue* queue, int32_t message);
  int32_t pop(Queue* queue);
  int32_t newMessage();

  void work(int32_t lane, double us);
  void advance(int32_t lane);
  bool take(int32_t lane, const Step& step, Picoseconds* ready, int32_t* cause);
  void beginCall(int32_t lane);
  void post(int32_t lane, const StepPeer& peer, const Step& step, bool first, int32_t stepRecord);
  int protocolFor(const Edge& edge, double bytes) const;
  bool toAnotherCore(const Lane& lane, const Edge& edge) const {
    return !job_.coreOf.empty() &&
           job_.coreOf[static_cast<size_t>(lane.member)] != job_.coreOf[static_cast<size_t>(edge.to)];
  }
  double writeAcrossUs(const Lane& lane, const Step& step, const StepPeer& peer, bool first, const ProtocolSpec& p,
                       double bytes) const;
  bool mayBegin(const Lane& lane, const Edge& edge) {
    return lane.onWire < job_.inFlight && !fifo(edge.to, edge.toEdge, lane.index).busy;
  }
  void schedule(int32_t lane, int32_t message, Picoseconds at);
  void sendNext(int32_t lane, int32_t behind, Picoseconds now);
  void begin(int32_t message, Picoseconds now);
  void leave(int32_t message, Picoseconds now);
  std::string describeHalt() const;

  const Job& job_;
  const int lanesOfChannel_;
  Flows flows_;
  double chunkBytes_ = 0;
  int loops_ = 1;
  bool record_ = false;
  std::vector<Lane> lanes_;
  std::vector<size_t> fifoBase_;
  std::vector<Fifo> fifos_;
  std::vector<Message> messages_;
  std::vector<int32_t> freeMessages_;
  std::vector<int32_t> messageOfFlow_;
  std::vector<Event> heap_;
  std::vector<bool> nearAllowed_, farAllowed_;
  struct Core {
    Picoseconds free = 0;
    int32_t members = 0;
    int32_t turn = -1;  // whose turn it was last, by places_
  };
  std::vector<Core> cores_;
  std::vector<int32_t> places_;  // [member] among those of its core
  Run run_;
};

}  // namespace tutti::sim
