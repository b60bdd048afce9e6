// C entry points of pp.h, and the thread of one rank through its list of actions.
#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "src/parallel/group.hpp"
#include "src/parallel/schedule.hpp"
#include "src/parallel/tensor.hpp"
#include "src/parallel/worker.hpp"

using namespace tutti::parallel;

struct tuttiSchedule {
  PipelineSchedule schedule;
  std::string csv, complaint;
};

// Not in a namespace without a name: tuttiPipeline has them as members and is no type of this file alone.
namespace tutti::parallel {

using Bytes = Array<char>;
using Place = std::tuple<bool, int, int>;  // forward, of which stage's making, micro-batch

/// Of a pipeline's owner, who frees it when it is over; a sending thread has it until `enqueued` is true.
struct PipelineMessage {
  Bytes value;
  Device::Mark ready, sent;  // when value is complete; when it may be written again
  std::atomic<bool> enqueued = false;
};

/// Messages to or from one peer, in the order in which the sender's list has them.
struct PipelineWire {
  tuttiComm_t comm = nullptr;        // of the two ranks, for this direction
  int peer = 0;                      // in comm
  std::vector<tuttiAction_t> order;  // the sender's
  size_t next = 0;
  std::shared_ptr<Device> device;  // the sending thread's, with a stream of its own
  std::deque<std::unique_ptr<PipelineMessage>> messages;
  std::unique_ptr<Worker> worker;  // sends; on CUDA, too, a call waits until the other rank has made its own
};

}  // namespace tutti::parallel

struct tuttiPipeline {
  explicit tuttiPipeline(std::shared_ptr<Device> of) : device(std::move(of)) {}
  std::shared_ptr<Device> device;  // first: ends after what lies in its memory
  PipelineSchedule schedule;
  tuttiStages_t stages = TUTTI_STAGES_INITIALIZER;
  tuttiComm_t comm = nullptr;
  int rank = 0;
  size_t count = 0;
  tuttiDataType_t dtype = tuttiFloat32;
  std::vector<PipelineWire*> wires;     // all of them, in the order of making
  std::map<int, PipelineWire> out, in;  // by peer's rank in comm
  std::map<Place, Bytes> values;        // made or received, not yet used
  tuttiTraffic_t traffic = TUTTI_TRAFFIC_INITIALIZER;
  bool broken = false;

  size_t bytes() const { return count * bytesOf(dtype); }

  void connect() {
    for (int from = 0; from < schedule.nRanks; ++from) {
      for (int to = 0; to < schedule.nRanks; ++to) {
        std::vector<tuttiAction_t> order;
        for (const tuttiAction_t& a : schedule.actions[static_cast<size_t>(from)]) {
          const bool sends = a.kind == tuttiActionSendForward || a.kind == tuttiActionSendBackward;
          if (sends && schedule.peerOf(a) == to) order.push_back(a);
        }
        if (order.empty()) continue;
        const bool mine = from == rank || to == rank;
        const tuttiComm_t pair = splitFrom(comm, mine ? 0 : TUTTI_SPLIT_NOCOLOR, rank);
        if (!mine) continue;
        PipelineWire& wire = from == rank ? out[to] : in[from];
        wires.push_back(&wire);
        wire.comm = pair;
        wire.peer = (from == rank ? to : from) < rank ? 0 : 1;
        wire.order = std::move(order);
        if (from != rank) continue;
        wire.device = deviceOf(pair, kindOf(*device));
        wire.worker = std::make_unique<Worker>();
        wire.worker->post([&wire] { tuttiParallelSetStream(orThrow(wire.device->ownStream())); });
      }
    }
  }
  /// Whether a rank has failed or left in what messages go through, or in what that was split from.
  bool ended() const {
    return hasFailed(comm) ||
           std::any_of(wires.begin(), wires.end(), [](const PipelineWire* wire) { return hasFailed(wire->comm); });
  }
  /// Ends the sending threads and the communicators, in the order in which they were made: it is the same on all ranks.
  void disconnect(bool abort) {
    for (PipelineWire* wire : wires) {
      if (abort) tuttiCommAbort(wire->comm);
      wire->worker.reset();
      wire->messages.clear();
      if (!abort) check(tuttiCommDestroy(wire->comm), nullptr);
    }
    wires.clear();
  }

  void send(const tuttiAction_t& a) {
    const bool forward = a.kind == tuttiActionSendForward;
    PipelineWire& wire = out.at(schedule.peerOf(a));
    auto message = std::make_unique<PipelineMessage>();
    message->value = take({forward, a.stage, a.micro});
    message->ready = orThrow(device->mark());
    countCall(traffic, tuttiCallSend, 2, bytes());
    wire.worker->post([this, &wire, m = message.get()] {
      orThrow(wire.device->follow(m->ready));
      check(tuttiSend(m->value.data(), count, dtype, wire.peer, wire.comm, streamOf(*wire.device)), wire.comm);
      m->sent = orThrow(wire.device->mark());
      m->enqueued.store(true, std::memory_order_release);  // forgetSent acquires it: m is not touched after this
    });
    wire.messages.push_back(std::move(message));
    forgetSent(wire);
  }
  /// Frees what is known to have left.
  void forgetSent(PipelineWire& wire) {
    while (!wire.messages.empty()) {
      const PipelineMessage& first = *wire.messages.front();
      if (!first.enqueued.load(std::memory_order_acquire) || !orThrow(device->done(first.sent))) return;
      wire.messages.pop_front();
    }
  }
  /// This rank's work follows all sends.
  void finishSends() {
    for (auto& [peer, wire] : out) {
      wire.worker->wait();
      if (!wire.messages.empty()) orThrow(device->follow(wire.messages.back()->sent));
      wire.messages.clear();
    }
  }
  /// Messages come in the sender's order; those that are not the one asked for wait in `values`.
  void receive(const tuttiAction_t& a) {
    const bool forward = a.kind == tuttiActionRecvForward;
    const Place wanted{forward, forward ? a.stage - 1 : a.stage + 1, a.micro};
    PipelineWire& wire = in.at(schedule.peerOf(a));
    while (values.count(wanted) == 0) {
      const tuttiAction_t& sent = wire.order[wire.next++ % wire.order.size()];
      Bytes value(*device, bytes(), Bytes::Any);
      check(tuttiRecv(value.data(), count, dtype, wire.peer, wire.comm, streamOf(*device)), wire.comm);
      countCall(traffic, tuttiCallRecv, 2, bytes());
      values[{sent.kind == tuttiActionSendForward, sent.stage, sent.micro}] = std::move(value);
    }
  }
  Bytes take(const Place& place) {
    const auto found = values.find(place);
    if (found == values.end()) fail(tuttiInternalError, "a value of the pipeline is missing");
    Bytes value = std::move(found->second);
    values.erase(found);
    return value;
  }

  /// On CUDA a call returns before it is done, and what became of it shows later.
  void throwIfFailed(tuttiComm_t pair) const {
    tuttiResult_t state = tuttiSuccess;
    if (device->onHost()) return;
    check(tuttiCommGetAsyncError(pair, &state), pair);
    if (state != tuttiInProgress) check(state, pair);
  }

  void compute(const tuttiAction_t& a) {
    const bool first = a.stage == 0, last = schedule.isLast(a.stage);
    tuttiResult_t result = tuttiSuccess;
    if (a.kind == tuttiActionBackwardWeight) {
      result = stages.backwardWeight(stages.context, a.stage, a.micro);
    } else if (a.kind == tuttiActionForward) {
      const Bytes input = first ? Bytes() : take({true, a.stage - 1, a.micro});
      Bytes output(*device, last ? 0 : bytes(), Bytes::Any);
      result = stages.forward(stages.context, a.stage, a.micro, first ? nullptr : input.data(),
                              last ? nullptr : output.data());
      if (!last) values[{true, a.stage, a.micro}] = std::move(output);
    } else {
      const Bytes dout = last ? Bytes() : take({false, a.stage + 1, a.micro});
      Bytes din(*device, first ? 0 : bytes(), Bytes::Any);
      result = stages.backward(stages.context, a.stage, a.micro, last ? nullptr : dout.data(),
                               first ? nullptr : din.data(), a.kind == tuttiActionBackward);
      if (!first) values[{false, a.stage, a.micro}] = std::move(din);
    }
    if (result != tuttiSuccess) {
      fail(result, "the user's stage failed at ", actionText(a), ": ", tuttiGetErrorString(result));
    }
  }

  void step() {
    for (const PipelineWire* wire : wires) throwIfFailed(wire->comm);
    for (const tuttiAction_t& a : schedule.actions[static_cast<size_t>(rank)]) {
      switch (a.kind) {
        case tuttiActionSendForward:
        case tuttiActionSendBackward: send(a); break;
        case tuttiActionRecvForward:
        case tuttiActionRecvBackward: receive(a); break;
        default: compute(a);
      }
    }
    finishSends();
  }
};

tuttiResult_t tuttiPipelineCreate(tuttiPipeline_t* pipeline, tuttiComm_t comm, tuttiSchedule_t schedule, size_t count,
                                  tuttiDataType_t dtype, const tuttiStages_t* stages) {
  return guarded([&] {
    require(pipeline != nullptr && schedule != nullptr && stages != nullptr, "pipeline, schedule or stages is NULL");
    *pipeline = nullptr;
    const auto calls = takeConfig<tuttiStages_t>(stages, TUTTI_STAGES_INITIALIZER, "stages");
    const int kind = kindOf(calls.device);
    auto made = std::make_unique<tuttiPipeline>(deviceOf(comm, kind));
    require(calls.device == TUTTI_DEVICE_AUTO || kindOf(*made->device) == kind, "device is ", calls.device,
            ", and the communicator computes elsewhere");
    const Group group(comm, *made->device);
    const PipelineSchedule& s = schedule->schedule;
    require(s.nRanks == group.size(), "the schedule is for ", s.nRanks, " ranks, there are ", group.size());
    const std::string complaint = validate(s, s.stages * s.microBatches);
    require(complaint.empty(), "the schedule cannot run: ", complaint);
    bytesOf(dtype);
    made->stages = calls;
    require(made->stages.forward != nullptr && made->stages.backward != nullptr, "stages lack forward or backward");
    bool split = false;
    for (const auto& row : s.actions) {
      for (const tuttiAction_t& a : row) split = split || a.kind == tuttiActionBackwardWeight;
    }
    require(!split || made->stages.backwardWeight != nullptr, "the schedule has BackwardWeight, stages have not");
    made->schedule = s;
    made->comm = comm;
    made->rank = group.rank();
    made->count = count;
    made->dtype = dtype;
    try {
      made->connect();
    } catch (...) {
      made->disconnect(true);
      throw;
    }
    *pipeline = made.release();
  });
}

tuttiResult_t tuttiPipelineDestroy(tuttiPipeline_t pipeline) {
  return guarded([&] {
    if (pipeline == nullptr) return;
    const std::unique_ptr<tuttiPipeline> owned(pipeline);
    owned->disconnect(owned->ended());
  });
}

tuttiResult_t tuttiPipelineStep(tuttiPipeline_t pipeline) {
  return guardedIf(pipeline != nullptr, "pipeline is NULL", [&] {
    if (pipeline->broken) fail(tuttiInvalidUsage, "an earlier step of this pipeline failed");
    try {
      pipeline->step();
    } catch (...) {  // others would wait for this rank's messages
      pipeline->disconnect(true);
      pipeline->broken = true;
      throw;
    }
  });
}

tuttiResult_t tuttiPipelineTraffic(tuttiPipeline_t pipeline, tuttiTraffic_t* counted, tuttiTraffic_t* expected) {
  return guardedIf(pipeline != nullptr, "pipeline is NULL", [&] {
    if (counted != nullptr) giveTraffic(pipeline->traffic, counted);
    if (expected == nullptr) return;
    tuttiTraffic_t formula = TUTTI_TRAFFIC_INITIALIZER;
    const PipelineSchedule& s = pipeline->schedule;
    for (int stage = 0; stage + 1 < s.stages; ++stage) {  // each boundary: activations one way, gradients the other
      const int a = s.rankOf[static_cast<size_t>(stage)], b = s.rankOf[static_cast<size_t>(stage) + 1];
      if (a == b) continue;
      for (int m = 0; m < s.microBatches; ++m) {
        for (const int call : {tuttiCallSend, tuttiCallRecv}) {
          if (a == pipeline->rank || b == pipeline->rank) {
            countCall(formula, static_cast<tuttiCall_t>(call), 2, pipeline->bytes());
          }
        }
      }
    }
    giveTraffic(formula, expected);
  });
}

tuttiResult_t tuttiScheduleCreate(tuttiSchedule_t* schedule, const char* name, int nRanks, int chunks,
                                  int microBatches) {
  return guardedIf(schedule != nullptr && name != nullptr, "schedule or name is NULL", [&] {
    *schedule = nullptr;
    *schedule = new tuttiSchedule{namedSchedule(name, nRanks, chunks, microBatches), "", ""};
  });
}
tuttiResult_t tuttiScheduleParse(tuttiSchedule_t* schedule, const char* csv) {
  return guardedIf(schedule != nullptr && csv != nullptr, "schedule or csv is NULL", [&] {
    *schedule = nullptr;
    auto made = std::make_unique<tuttiSchedule>(tuttiSchedule{parseSchedule(csv), "", ""});
    const std::string complaint = validate(made->schedule, made->schedule.stages * made->schedule.microBatches);
    require(complaint.empty(), complaint);
    *schedule = made.release();
  });
}
tuttiResult_t tuttiScheduleDestroy(tuttiSchedule_t schedule) {
  return guarded([&] { delete schedule; });
}
tuttiResult_t tuttiScheduleCsv(tuttiSchedule_t schedule, const char** csv) {
  return guardedIf(schedule != nullptr && csv != nullptr, "schedule or csv is NULL", [&] {
    schedule->csv = scheduleCsv(schedule->schedule);
    *csv = schedule->csv.c_str();
  });
}
tuttiResult_t tuttiScheduleShape(tuttiSchedule_t schedule, int* nRanks, int* stages, int* microBatches) {
  return guardedIf(schedule != nullptr, "schedule is NULL", [&] {
    if (nRanks != nullptr) *nRanks = schedule->schedule.nRanks;
    if (stages != nullptr) *stages = schedule->schedule.stages;
    if (microBatches != nullptr) *microBatches = schedule->schedule.microBatches;
  });
}
tuttiResult_t tuttiScheduleRankOf(tuttiSchedule_t schedule, int stage, int* rank) {
  return guardedIf(schedule != nullptr && rank != nullptr, "schedule or rank is NULL", [&] {
    require(stage >= 0 && stage < schedule->schedule.stages, "there is no stage ", stage);
    *rank = schedule->schedule.rankOf[static_cast<size_t>(stage)];
  });
}
tuttiResult_t tuttiScheduleActions(tuttiSchedule_t schedule, int rank, const tuttiAction_t** actions, int* count) {
  return guarded([&] {
    require(schedule != nullptr && actions != nullptr && count != nullptr, "schedule, actions or count is NULL");
    require(rank >= 0 && rank < schedule->schedule.nRanks, "there is no rank ", rank);
    const auto& row = schedule->schedule.actions[static_cast<size_t>(rank)];
    *actions = row.data();
    *count = static_cast<int>(row.size());
  });
}
tuttiResult_t tuttiScheduleValidate(tuttiSchedule_t schedule, int buffers, const char** complaint) {
  return guardedIf(schedule != nullptr && complaint != nullptr && buffers >= 0, "schedule or complaint is NULL", [&] {
    schedule->complaint = validate(schedule->schedule, buffers);
    *complaint = schedule->complaint.c_str();
  });
}
tuttiResult_t tuttiScheduleSimulate(tuttiSchedule_t schedule, tuttiSimulation_t* simulation) {
  return guarded([&] {
    require(schedule != nullptr && simulation != nullptr && simulation->size == sizeof(tuttiSimulation_t),
            "schedule is NULL, or simulation does not begin from TUTTI_SIMULATION_INITIALIZER");
    simulate(schedule->schedule, *simulation);
  });
}
tuttiResult_t tuttiScheduleInFlight(tuttiSchedule_t schedule, int rank, int* most) {
  return guardedIf(schedule != nullptr && most != nullptr, "schedule or most is NULL", [&] {
    require(rank >= 0 && rank < schedule->schedule.nRanks, "there is no rank ", rank);
    *most = inFlight(schedule->schedule)[static_cast<size_t>(rank)];
  });
}

tuttiResult_t tuttiBalanceStages(const double* costs, int layers, int stages, int64_t* cuts) {
  return guardedIf(costs != nullptr && cuts != nullptr && layers >= 0 && stages >= 1, "costs or cuts is NULL", [&] {
    const size_t n = static_cast<size_t>(layers), p = static_cast<size_t>(stages);
    std::vector<double> before(n + 1);
    for (size_t l = 0; l < n; ++l) {
      require(costs[l] >= 0, "the cost of layer ", l, " is ", costs[l]);
      before[l + 1] = before[l] + costs[l];
    }
    // best[k][l]: the costliest of k stages over the first l layers; O(layers^2 stages).
    std::vector<std::vector<double>> best(p + 1, std::vector<double>(n + 1, 1e300));
    std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1));
    best[0][0] = 0;
    for (size_t k = 1; k <= p; ++k) {
      for (size_t l = 0; l <= n; ++l) {
        for (size_t cut = 0; cut <= l; ++cut) {
          const double worst = std::max(best[k - 1][cut], before[l] - before[cut]);
          if (worst < best[k][l]) {
            best[k][l] = worst;
            from[k][l] = cut;
          }
        }
      }
    }
    cuts[p] = layers;
    for (size_t k = p; k > 0; --k) cuts[k - 1] = static_cast<int64_t>(from[k][static_cast<size_t>(cuts[k])]);
  });
}
